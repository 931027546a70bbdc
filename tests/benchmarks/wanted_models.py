"""Models of all pairs, or of all triples, wanted: how far from the truth, through the server.

Each model is learnt from a history of its own: a store, a worker that draws the noise, and one HTTP
process, which answers by its client. `pairs` and `triples` are the mean L1 distances of proportions
from the truth over all pairs and over some triples, `records_pairs` and `records_triples` those of
as many synthetic records as there are true ones; means of all runs, with noise of the system's own
entropy. `learn_s` is what a client waits for a model, `cpu_s` the processor time per model of all
processes, with attaching, all answers and the records; `most_mib` is the most memory of any of them
so far. `pairs, merged` are pairs with `selection` `merged`, of data with wide attributes: Adult,
and made-up data that depend through one of four hidden classes. Of `flat` ones all values are about
as frequent, of `steep` ones few are. Three runs differ by up to a third where the same tables are
bought.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import mean

import numpy as np

from qserver.client import Client
from qserver.config import LOOPBACK, Settings
from qserver.models.marginals.graph.layout import FloatArray, Scope

from .stack import attach, deployed
from .tables import Report, Value
from .wide_records import ALARM, Records, adult_records, coded

RUNS = 3
EPSILONS = (0.1, 1.0, 10.0)
WISHES = {"pairs": 2, "triples": 3, "pairs, merged": 2}
MERGED = "pairs, merged"
_WIDE = 16
_LIMIT = "10"
_TRIPLES = 40
_WAIT_S = 300.0


def run(*, quick: bool) -> Report:
    """Errors by data, epsilon and what is wanted."""
    names = ("asia",) if quick else tuple(_DATA)
    runs, epsilons = (1, EPSILONS[1:2]) if quick else (RUNS, EPSILONS)
    rows = [row for name in names for row in _rows(name, runs, epsilons)]
    return Report(
        name="wanted_models",
        title="L1 error of models by what is wanted, through the server",
        parameters={"runs": runs, "neighbours": "add-remove", "triples": _TRIPLES},
        rows=tuple(rows),
    )


def _network(name: str, most: int) -> Records:
    """The first attributes of a sample of 10,000 records of a network."""
    path = ALARM.with_name(f"{name}-10k.csv.gz")
    with gzip.open(path, mode="rt", encoding="utf-8", newline="") as lines:
        _, *rows = csv.reader(lines)
    return coded([[row[i] for row in rows] for i in range(min(most, len(rows[0])))])


def _of_two_values() -> Records:
    found = _network("alarm", 37)
    axes = [a for a, n in enumerate(found.sizes) if n == 2]
    return Records(found.codes[:, axes], (2,) * len(axes))


def _made_up(steepness: float, *, seed: int) -> Records:
    """20,000 records of 9 attributes; a value's share falls with this power of its place."""
    generator = np.random.default_rng(seed)
    sizes, n = (30, 16, 9, 5, 2, 30, 16, 9, 3), 20_000
    hidden, codes = generator.integers(0, 4, n), np.empty((n, len(sizes)), dtype=np.intp)
    for axis, size in enumerate(sizes):
        falling = np.arange(1.0, size + 1) ** -steepness
        for one in range(4):
            weights = falling * generator.gamma(1.0, size=size)
            of_it = hidden == one
            chosen = generator.choice(size, of_it.sum(), p=weights / weights.sum())
            codes[of_it, axis] = chosen
    return Records(codes, sizes)


_DATA: Mapping[str, Callable[[], Records]] = {
    "adult": adult_records,
    "alarm, of 2 values": _of_two_values,
    "sachs": lambda: _network("sachs", 11),
    "child": lambda: _network("child", 12),
    "asia": lambda: _network("asia", 8),
    "made up, flat": lambda: _made_up(0.0, seed=61),
    "made up, steep": lambda: _made_up(1.8, seed=62),
}


@dataclass(frozen=True)
class _Case:
    """One model of one run, learnt on a dataset of its own."""

    epsilon: float
    wish: str
    run: int

    @property
    def dataset(self) -> str:
        wish = list(WISHES).index(self.wish)
        return f"d{str(self.epsilon).replace('.', '_')}_{wish}_{self.run}"


def _rows(name: str, runs: int, epsilons: Sequence[float]) -> Iterator[dict[str, Value]]:
    records = _DATA[name]()
    wishes = [wish for wish in WISHES if wish != MERGED or max(records.sizes) >= _WIDE]
    cases = [_Case(*one) for one in product(epsilons, wishes, range(runs))]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = dict[_Case, dict[str, float]]()
    with _served(records, [case.dataset for case in cases]) as client:
        for case in cases:
            found[case] = _measured(client, case, records)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    for epsilon, wish in product(epsilons, wishes):
        same = [found[case] for case in cases if (case.epsilon, case.wish) == (epsilon, wish)]
        yield {
            "data": name,
            "attributes": len(records.sizes),
            "epsilon": epsilon,
            "wanted": wish,
            **{key: mean(one[key] for one in same) for key in same[0]},
            "cpu_s": spent / len(cases),
            "most_mib": after.ru_maxrss / 1024,
        }


@contextlib.contextmanager
def _served(records: Records, datasets: Sequence[str]) -> Iterator[Client]:
    """A server of these records, under several names that share nothing."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        about = folder / "domain.json"
        names = _names(records)
        labels = [[f"v{j}" for j in range(n)] for n in records.sizes]
        plain = [{"name": n, "labels": own} for n, own in zip(names, labels, strict=True)]
        about.write_text(json.dumps({"attributes": plain}))
        data = folder / "records.csv"
        with data.open("w", newline="") as lines:
            csv.writer(lines).writerows([names, *([f"v{c}" for c in r] for r in records.codes)])
        arguments = ("--data", str(data), "--domain", str(about), "--limit", _LIMIT)

        def more(settings: Settings) -> None:
            for name in datasets[1:]:
                own = (name, *arguments, "--same-data-other-people")
                attach(settings, *own, log=folder / f"{name}.log")

        with deployed(datasets[0], *arguments, before=more, wait_s=_WAIT_S) as site:
            url = f"http://{LOOPBACK}:{site.port}"
            yield Client(url, timeout_s=_WAIT_S, wait_s=_WAIT_S)


def _names(records: Records) -> list[str]:
    return [f"a{i}" for i in range(len(records.sizes))]


def _measured(client: Client, case: _Case, records: Records) -> dict[str, float]:
    names, models = _names(records), client.models
    scopes = combinations(range(len(names)), WISHES[case.wish])
    wanted = [[names[a] for a in s] for s in scopes]
    selection = "merged" if case.wish == MERGED else "best"
    begun = time.perf_counter()
    model = models.learn_marginals(case.dataset, wanted, epsilon=case.epsilon, selection=selection)
    waited = time.perf_counter() - begun
    drawn = models.sample(case.dataset, model, records.n, seed=case.run)
    synthetic = Records(np.array([[int(v[1:]) for v in r] for r in drawn]), records.sizes)

    def told(scope: Scope) -> FloatArray:
        variables = [names[a] for a in scope]
        return np.array(models.marginal(case.dataset, model, variables).probabilities)

    def by_records(scope: Scope) -> FloatArray:
        return synthetic.counts(scope) / synthetic.n

    pairs, triples = (list(combinations(range(len(names)), k)) for k in (2, 3))
    some = triples[:: -(-len(triples) // _TRIPLES)]
    return {
        "tables": len(model.tables),
        "pairs": _error(records, told, pairs),
        "triples": _error(records, told, some),
        "records_pairs": _error(records, by_records, pairs),
        "records_triples": _error(records, by_records, some),
        "learn_s": waited,
    }


def _error(records: Records, told: Callable[[Scope], FloatArray], scopes: Sequence[Scope]) -> float:
    true = ((told(s), records.counts(s) / records.n) for s in scopes)
    return mean(float(np.abs(ours - one).sum()) for ours, one in true)
