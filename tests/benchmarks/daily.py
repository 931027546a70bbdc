"""What users of real data wait for: every way to ask, on Adult and on flights with dates.

A server, a worker and a store as `qserver serve` runs them, with one HTTP process. A history of
counts on two or three attributes was paid for, each as asked (`measure: only_this`). Figures are
processor time of all parts, in milliseconds: of the `first` time that this way asks a statement
(the first way in the table pays for it), of the `second`, and of those after it (`again`, their
median). Parts are of these; `server` holds the port, too, and `client` is whoever asks. Wall-clock
times are those of one client.

*Fresh counts of 16 clients* pay for the history: `wall_ms` is 1,000 over how many come a second.
`echo` is a bare JSON echo under the same gunicorn in the same run. A *fresh* count must be
measured. A *free* one is new and follows from a GROUP BY that was asked before. Both are different
questions each time, and `first` is their mean. A history of 5,000 is synthesised: true counts with
noise, charged and published by the scripts of the store, and a journal that begins after them.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean, median

import duckdb
import numpy as np

from qserver.cli.local.demo import CAPACITY, SEALED_AT_FIRST, adult_csv
from qserver.config import Settings
from qserver.query.asking.structured_question import parse_query
from qserver.records.charge import NANO
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

from .daily_statements import LENGTH, Data, adult, flights
from .faces import Body, Count, Faces, faces_of
from .load import Plan, generate
from .long_histories import LIMIT_NANO, Answers, fill
from .machine import Times
from .parts import Clocks
from .stack import deployed, echoing, owner, porting
from .tables import Report, Value, value_text

QUICK_SIZES = (20,)
SEED = 20_261_127
_BY_HAND, _PATIENCE_MS = 1_000, 600_000
N_NEW, N_QUICK = 40, 5
_CONNECTIONS, _WAIT_S = 16, 50.0
_LEAST, _MOST, _LONG_S, _QUICK_S = 4, 200, 1.0, 0.2
_FACES = ("SQL body", "client, SQL")


def run(*, quick: bool) -> Report:
    """Costs by dataset, length of history, statement and way to ask."""
    rows = list[Mapping[str, Value]]()
    with tempfile.TemporaryDirectory() as weeks:
        few = replace(adult(), statements=dict(islice(adult().statements.items(), 2)))
        for data in (few,) if quick else (adult(), flights(Path(weeks))):
            for paid in QUICK_SIZES if quick else data.sizes:
                amounts = Amounts(N_QUICK, _QUICK_S) if quick else Amounts(N_NEW, _LONG_S)
                rows += _rows(data, paid, amounts)
    return Report(
        name="daily",
        title="Milliseconds of the processor that a statement takes, first and again",
        parameters={
            "http_workers": 1,
            "new_questions": N_NEW,
            "most_repeats": _MOST,
            "sealed": SEALED_AT_FIRST,
            "capacity": CAPACITY,
            "seed": SEED,
            "store": "embedded, appendonly yes, appendfsync always",
        },
        rows=tuple(rows),
    )


@dataclass(frozen=True)
class Amounts:
    """How many new questions to ask, and how long to repeat a known statement."""

    new: int
    repeat_s: float


def _rows(data: Data, paid: int, amounts: Amounts) -> list[Mapping[str, Value]]:
    with contextlib.ExitStack() as stack:
        generator = random.Random(f"{SEED} {data.name}")
        asked = [data.paid(generator) for _ in range(paid)]
        is_long = paid > _BY_HAND
        before = partial(_synthesised, data.name, asked) if is_long else _nothing
        arguments = (*data.attach, "--limit", str(LIMIT_NANO // NANO))
        site = stack.enter_context(deployed(data.name, *arguments, before=before, wait_s=_WAIT_S))
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(porting(site.settings, log=logs / "port.log"))
        echo = stack.enter_context(echoing(site.settings, log=logs / "echo.log"))
        about: dict[str, Value] = {"dataset": data.name, "paid": paid}
        rows = [] if is_long else [{**about, **_paid(site.port, data, asked)}]
        faces = stack.enter_context(faces_of(data.name, http=site.port, postgres=port.port))
        bare = stack.enter_context(contextlib.closing(Body(echo.port, data.name)))
        measured = _Measuring(data, faces, bare, generator, amounts).rows()
        return [*rows, *({**about, **row} for row in measured)]


def _paid(port: int, data: Data, asked: Sequence[Count]) -> Mapping[str, Value]:
    """Have these measured, each by itself; what one took of them."""
    bodies = tuple(json.dumps({**one.document, "measure": "only_this"}) for one in asked)
    plan = Plan(port, f"/v1/datasets/{data.name}/query", bodies, _CONNECTIONS)
    (used,) = _used([partial(generate, plan)])
    n = len(asked)
    each = _Use({part: seconds / n for part, seconds in used.seconds.items()}, used.wall_s / n)
    return _row(f"fresh count, {_CONNECTIONS} clients", "body", first=each)


def _nothing(_: Settings) -> None:
    """There is nothing to do."""


def _synthesised(name: str, asked: Sequence[Count], settings: Settings) -> None:
    """Write a long history of true counts with noise, and a journal that goes on from there."""
    meta = Store.open(settings).meta(name)
    alpha_nano = round(2 * NANO * math.log(20) / LENGTH)
    queries = [parse_query({"where": one.where}, meta.domain) for one in asked]
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE adult AS SELECT * FROM read_csv('{adult_csv()}')")
        text = "SELECT count(*) FROM adult WHERE "
        counts = [connection.execute(text + one.conditions).fetchall()[0][0] for one in asked]
    noise = np.random.default_rng(SEED).laplace(scale=NANO / alpha_nano, size=len(asked))
    answers = Answers([count + z for count, z in zip(counts, noise, strict=True)], alpha_nano)
    patient = replace(settings, lease_ms=_PATIENCE_MS)
    fill(SpendingStore.open(patient), meta, queries, answers)
    folder = settings.state_dir / "worker"
    (folder / "journals" / f"{name}.journal").unlink()
    owner(settings, "restore", "--accept-loss", name, log=folder / "restore.log")


@dataclass
class _Measuring:
    """One dataset with its history, measured statement by statement."""

    data: Data
    faces: Faces
    bare: Body
    generator: random.Random
    amounts: Amounts

    def rows(self) -> Iterator[Mapping[str, Value]]:
        """A row for each statement and each way to ask it."""
        known = replace(self.data.paid(self.generator), length=2 * LENGTH)
        self._warm(known)
        yield self._again("echo", "body", lambda: self.bare.echo(known))
        for face, count in self.faces.count.items():
            yield self._again("known count", face, partial(count, known))
        yield from self._statement("known count", (known.sql(self.data.name),), self.faces.sql)
        yield self._new("fresh count", self.data.paid, "body", self.faces.body.count)
        first, *_, last = self.data.statements
        for name, texts in self.data.statements.items():
            yield from self._statement(
                name, texts, self.faces.sql if name in (first, last) else _FACES
            )
            if name == first:
                yield from self._free()

    def _warm(self, known: Count) -> None:
        """Start what the first SQL starts, with a statement that is not asked again."""
        self.faces.body.count(known)
        for sql in self.faces.sql.values():
            sql(replace(known, length=2.5 * LENGTH).sql(self.data.name))

    def _statement(
        self, name: str, texts: Sequence[str], faces: Iterable[str]
    ) -> Iterator[Mapping[str, Value]]:
        for face in faces:
            sql = self.faces.sql[face]
            yield self._again(name, face, partial(_each, sql, texts))

    def _free(self) -> Iterator[Mapping[str, Value]]:
        for face, count in self.faces.count.items():
            yield self._new("free count", self.data.free, face, count)
        by_sql = self.faces.sql[_FACES[-1]]
        ask = lambda one: by_sql(one.sql(self.data.name))  # noqa: E731
        yield self._new("free count", self.data.free, _FACES[-1], ask)

    def _again(self, statement: str, face: str, ask: Callable[[], object]) -> Mapping[str, Value]:
        """A statement's first and second time, and all later ones."""
        first, second, *others = _used(_for_a_while(ask, self.amounts.repeat_s))
        return _row(statement, face, first=first, second=second, others=others)

    def _new(
        self,
        statement: str,
        make: Callable[[random.Random], Count],
        face: str,
        ask: Callable[[Count], object],
    ) -> Mapping[str, Value]:
        """Different questions, each for the first time."""
        asked = [make(self.generator) for _ in range(self.amounts.new)]
        found = _used(partial(ask, one) for one in asked)
        seconds = {p: mean(one.seconds.get(p, 0.0) for one in found) for p in found[0].seconds}
        walls = Times.of_seconds(one.wall_s for one in found)
        row = _row(statement, face, first=_Use(seconds, walls.median_ms / 1e3))
        return {**row, "slowest_ms": round(walls.quantile_ms(1.0), 2)}


def _each(ask: Callable[[str], object], texts: Iterable[str]) -> None:
    for text in texts:
        ask(text)


def _for_a_while(ask: Callable[[], object], repeat_s: float) -> Iterator[Callable[[], object]]:
    """Four times at least, then for a while."""
    begun = time.perf_counter()
    for i in range(_MOST):
        if i >= _LEAST and time.perf_counter() > begun + repeat_s:
            return
        yield ask


@dataclass(frozen=True)
class _Use:
    """What a call took: processor seconds by part, and by the clock on the wall."""

    seconds: Mapping[str, float]
    wall_s: float

    def ms(self, *parts: str) -> float:
        """Milliseconds of these parts, to three digits."""
        return float(f"{1e3 * sum(self.seconds.get(part, 0.0) for part in parts):.3g}")


def _used(calls: Iterable[Callable[[], object]]) -> list[_Use]:
    """Of each call; what a part still did after its reply is in the next one."""
    clocks, found = Clocks(), list[_Use]()
    before = {**clocks.seconds(), "client": _own_s()}
    for call in calls:
        begun = time.perf_counter()
        call()
        wall_s = time.perf_counter() - begun
        after = {**clocks.seconds(), "client": _own_s()}
        found.append(_Use({part: after[part] - before[part] for part in after}, wall_s))
        before = after
    return found


def _own_s() -> float:
    """Of this process and of the commands that it waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def _row(
    statement: str,
    face: str,
    *,
    first: _Use,
    second: _Use | None = None,
    others: Sequence[_Use] = (),
) -> dict[str, Value]:
    # What is idle works a little: an echo is looked at alone, and so is qserver.
    parts = ("echo",) if statement == "echo" else ("server", "port", "worker", "store")
    shown = others or (first,)
    ms = lambda *names: median(one.ms(*names) for one in shown)  # noqa: E731
    times = [
        first.ms(*parts),
        second.ms(*parts) if second else None,
        ms(*parts) if others else None,
    ]
    return {
        "statement": statement,
        "face": face,
        "in_short": " / ".join(value_text(one) for one in times if one is not None),
        "first_ms": times[0],
        "first_worker_ms": first.ms("worker"),
        "second_ms": times[1],
        "again_ms": times[2],
        "server_ms": ms("server", "port"),
        "worker_ms": ms("worker"),
        "store_ms": ms("store"),
        "client_ms": ms("client"),
        "wall_ms": round(1e3 * median(one.wall_s for one in shown), 2),
        "slowest_ms": round(1e3 * max(one.wall_s for one in shown), 2),
    }
