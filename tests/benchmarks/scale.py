"""Many datasets, several HTTP processes, one outside store.

Each dataset has a history of ranges on two attributes. Questions come in turns: to the process that
deploy/nginx-by-dataset.conf gives a dataset, to any of them, or all to one. `mb` is memory of all
processes with all datasets, shared pages counted once. The rest is processor time of the processes
and the store for an answer: about a dataset that nobody has read, of all such first answers
together for a dataset, of one that was asked before, and in words that were not.

`python -m tests.benchmarks.scale N` measures N workers with populations of their own: datasets of
3,000 records, fresh questions by four clients.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from qserver.config import LOOPBACK, Settings
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import interval
from qserver.records.dataset import DatasetMeta
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

from .endurance.stream import write_domain, write_records
from .load import ROOT, Plan, generate
from .long_histories import Shape, fill, meta_of
from .parts import Clocks, processes, proportional_mb
from .stack import Site, attach, free_port, serving, working
from .tables import Report, Value

RULE = ROOT / "deploy" / "nginx-by-dataset.conf"
SHAPE = Shape(4, 10, 2)
_SEED = 20_261_127


def routes() -> Sequence[re.Pattern[str]]:
    """The patterns of nginx's rule, as Python writes them."""
    found = re.findall(r'"~(.+)"\s+\$', RULE.read_text(encoding="utf-8"))
    return [re.compile(text.replace("(?<", "(?P<")) for text in found]


def routed(path: str, n: int) -> int:
    """Which of `n` processes a path goes to: by what the rule takes from it, hashed."""
    keys = (found[1] for pattern in routes() if (found := pattern.search(path)))
    return zlib.crc32(next(keys, LOOPBACK).encode()) % n


@dataclass(frozen=True)
class Asked:
    """A count, as the planner and as HTTP have it."""

    query: LinearQuery
    body: str

    @classmethod
    def drawn(cls, generator: random.Random) -> Asked:
        """A range on each of two attributes."""
        axes, where = {}, {}
        for axis in generator.sample(range(SHAPE.n_attributes), SHAPE.n_asked):
            low, high = sorted(generator.sample(range(SHAPE.n_values + 1), 2))
            axes[axis] = interval(SHAPE.n_values, low, high)
            where[f"a{axis}"] = {"between": [low, high - 1]}
        query = linear_query(SHAPE.domain.sizes, [(1, axes)])
        body = {"query": {"where": where}, "length": 1000, "confidence": 0.95}
        return cls(query, json.dumps(body))


def filled(store: SpendingStore, n_datasets: int, n_paid: int) -> Mapping[str, Sequence[str]]:
    """Give the store datasets with histories; the bodies of what was asked of each."""
    generator, found = random.Random(_SEED), dict[str, Sequence[str]]()
    for i in range(n_datasets):
        name = f"d{i}"
        asked = [Asked.drawn(generator) for _ in range(n_paid)]
        fill(store, _meta(name), [one.query for one in asked])
        found[name] = [one.body for one in asked]
    return found


def _meta(name: str) -> DatasetMeta:
    return replace(meta_of(SHAPE), name=name, population=name, snapshot=f"{name}s")


@dataclass(frozen=True)
class Fleet:
    """HTTP processes on one store."""

    sites: Sequence[Site]
    connections: Sequence[http.client.HTTPConnection]

    def ask(self, place: int, dataset: str, body: str) -> Mapping[str, Any]:
        """The answer of one of them."""
        connection = self.connections[place]
        head = {"Content-Type": "application/json"}
        connection.request("POST", path_of(dataset), body, head)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{dataset} was answered with {reply.status}: {text[:300]!r}")
        return json.loads(text)


def path_of(dataset: str) -> str:
    """Where a dataset's questions are sent."""
    return f"/v1/datasets/{dataset}/query"


@contextlib.contextmanager
def fleet(url: str, n: int, folder: Path) -> Iterator[Fleet]:
    """`n` HTTP processes on an outside store, each its user `http-I`, with a folder of its own."""
    with contextlib.ExitStack() as stack:
        sites, store = [], connect(url, role="test")
        for i in range(n):
            store.execute_command(
                "ACL", "SETUSER", f"http-{i}", "on", "nopass", "~*", "&*", "+@all"
            )
            settings = Settings(
                redis_url=url.replace("//", f"//http-{i}:any@"),
                state_dir=folder / f"http-{i}",
                http_workers=1,
                open_access=True,
            )
            sites.append(stack.enter_context(serving(settings, log=folder / f"http-{i}.log")))
        connections = [http.client.HTTPConnection(LOOPBACK, s.port, timeout=120) for s in sites]
        for connection in connections:
            stack.callback(connection.close)
        yield Fleet(sites, connections)


@contextlib.contextmanager
def outside_store(folder: Path) -> Iterator[str]:
    """The address of a store that is reached over TCP, as one of another machine is."""
    with EmbeddedServer.start(folder / "store") as server:
        port = free_port()
        connect(server.url, role="test").config_set("port", str(port))
        yield f"redis://{LOOPBACK}:{port}/0"


def run(*, quick: bool) -> Report:
    """Memory and processor time by the way that questions go."""
    n_processes, n_datasets, n_paid = (2, 4, 6) if quick else (4, 100, 50)
    ways: Mapping[str, tuple[int, Callable[[str, random.Random], int]]] = {
        "by dataset": (n_processes, lambda name, _: routed(path_of(name), n_processes)),
        "to any": (n_processes, lambda _, generator: generator.randrange(n_processes)),
        "to one": (1, lambda _name, _generator: 0),
    }
    rows = list[Mapping[str, Value]]()
    with tempfile.TemporaryDirectory() as text, outside_store(Path(text)) as url:
        folder = Path(text)
        asked = filled(SpendingStore.open(Settings(redis_url=url)), n_datasets, n_paid)
        for way, (n, place) in ways.items():
            with fleet(url, n, folder) as found:
                rows.append({"questions go": way, **_way(found, asked, place)})
    return Report(
        name="scale",
        title="Memory and processor time of HTTP processes with many datasets",
        parameters={"datasets": n_datasets, "paid questions of each": n_paid, "seed": _SEED},
        rows=tuple(rows),
    )


def _way(
    found: Fleet, asked: Mapping[str, Sequence[str]], place: Callable[[str, random.Random], int]
) -> Mapping[str, Value]:
    """Each dataset is asked once, then until every process that is asked has it, and then again."""
    generator = random.Random(_SEED)
    turns = [[(name, bodies[0]) for name, bodies in asked.items()] for _ in range(30)]
    turns += [[(name, bodies[i]) for name, bodies in asked.items()] for i in range(1, 6)]
    empty_mb, seconds = _memory_mb(), list[float]()
    clocks = Clocks()
    for turn in turns:
        before = sum(clocks.seconds().values())
        for name, body in turn:
            found.ask(place(name, generator), name, body)
        seconds.append((sum(clocks.seconds().values()) - before) / len(turn))
    return {
        "processes": len(found.sites),
        "empty_mb": round(empty_mb),
        "mb": round(_memory_mb()),
        "first_ms": round(1e3 * seconds[0], 2),
        "all_first_ms": round(1e3 * sum(s - min(seconds) for s in seconds[:30]), 2),
        "again_ms": round(1e3 * min(seconds), 2),
        "other_words_ms": round(1e3 * mean(seconds[30:]), 2),
    }


def _memory_mb() -> float:
    return proportional_mb(processes()["server"])


def _workers(n_workers: int, n_datasets: int, n_questions: int) -> None:
    """Each worker with a folder and populations of its own, two HTTP processes, one store."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(outside_store(folder))
        names = populations(stack, url, folder, n_workers, n_datasets)
        found = stack.enter_context(fleet(url, 2, folder))
        generator, clocks = random.Random(_SEED), Clocks()
        before = clocks.seconds()
        plans = [
            Plan(
                found.sites[routed(path_of(name), 2)].port,
                path_of(name),
                tuple(fresh(generator) for _ in range(n_questions)),
                4,
            )
            for name in names
        ]
        for plan in plans:
            generate(plan)
        after, n = clocks.seconds(), len(names) * n_questions
        used = {part: round(1e3 * (after[part] - before[part]) / n, 1) for part in after}
        memory = [round(proportional_mb((p,))) for p in processes()["worker"]]
        print(json.dumps({"workers": n_workers, "ms": used, "MB": memory}), flush=True)


def populations(
    stack: contextlib.ExitStack, url: str, folder: Path, n_workers: int, n_datasets: int
) -> list[str]:
    """Attach datasets, each a population of its own, in turns to workers that then run."""
    domain, names = write_domain(folder / "domain.json"), list[str]()
    for i in range(n_workers):
        settings = Settings(redis_url=url, state_dir=folder / f"worker-{i}", open_access=True)
        mine = [f"p{j}" for j in range(n_datasets) if j % n_workers == i]
        for name in mine:
            data = write_records(folder / f"{name}.csv", seed=name)
            arguments = ("--data", str(data), "--domain", str(domain), "--limit", "1000")
            attach(settings, name, *arguments, log=folder / f"{name}.log")
        store = Store.open(settings)
        alive = lambda names=mine, at=store: all(map(at.worker_alive, names))  # noqa: E731
        stack.enter_context(working(settings, log=folder / f"worker-{i}.log", alive=alive))
        names += mine
    return names


def fresh(generator: random.Random) -> str:
    """A question on the datasets of workers that is hardly asked twice."""
    ends = {name: sorted(generator.sample(range(100), 2)) for name in ("age", "hours")}
    where = {name: {"between": pair} for name, pair in ends.items()}
    return json.dumps({"query": {"where": where}, "length": 200, "confidence": 0.95})


def main() -> int:
    """Measure workers, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale")
    parser.add_argument("workers", type=int)
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--questions", type=int, default=20, help="of each dataset")
    asked = parser.parse_args()
    _workers(asked.workers, asked.datasets, asked.questions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
