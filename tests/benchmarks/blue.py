"""Best linear unbiased weights: one new query against l rows, and one more row.

Four histories. `ranges`: ranges on a third as many cuts as rows, so most rows depend on others.
`free ranges`: ends all over an attribute of 10^6 values, rows independent. `predicates`: random
sets on 3 of the attributes, on a domain of 10^4 and on one of 10^12 cells. Every query is new.
On small histories the weights are found again by dense least squares.

`query` is everything from the primitive row to its weights, `not_estimable` the same for a query
that history cannot give; `append_and_query` takes in one more row first. `answer` is the whole
way to an interval at 95 percent, with the weights of the shortest tail. 5,000 predicates on 10^4
cells have rank 3,439 at most.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qserver.inference.engine import InferenceEngine
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.records.dataset import MOST_RECORDS
from qserver.records.history import Measurement

from .machine import Times, times_of
from .tables import Report, Value
from .workloads import QuerySource, Segments, different, measurements_of

SIZES = (100, 1000, 5000)
QUICK_SIZES = (30,)
LARGEST_DENSE = 100
SEED = 20_240_502
N_QUERIES = 10
CONFIDENCE = 0.95
LINE = (1_000_000,)
SMALL_DOMAIN = (10,) * 4
LARGE_DOMAIN = (10,) * 12


@dataclass(frozen=True)
class Case:
    """Rows of a history, and queries that it answers and that it does not."""

    kind: str
    rows: list[LinearQuery]
    extra: list[LinearQuery]
    answerable: list[LinearQuery]
    others: list[LinearQuery]


def run(*, quick: bool) -> Report:
    """Times of loading, asking, refusing and appending, by kind and number of rows."""
    sizes = QUICK_SIZES if quick else SIZES
    n = 5 if quick else N_QUERIES
    return Report(
        name="blue",
        title="One new query against l rows: median times, and agreement with dense least squares",
        parameters={
            "queries": n,
            "seed": SEED,
            "confidence": CONFIDENCE,
            "largest_dense": LARGEST_DENSE,
        },
        rows=tuple(_row(make(size, n)) for make in (_cut, _free, _small, _large) for size in sizes),
    )


def _row(case: Case) -> dict[str, Value]:
    measured = measurements_of([*case.rows, *case.extra], seed=SEED)
    rows, extra = measured[: len(case.rows)], measured[len(case.rows) :]
    before, space = resident_mb(), Space(2 * len(measured))
    load = times_of([lambda: space.extend(rows)])
    memory = resident_mb() - before
    query = _times(space.combinations, case.answerable)
    refusal = _times(space.combinations, case.others)
    answers = _answer_times(case, rows)
    append = _append_times(space, extra, case.answerable)
    dense = _dense(case, rows)
    return {
        "rows": f"{len(rows)} {case.kind}",
        "load_ms": sum(load.ms),
        "memory_mb": memory,
        "query_ms": query.median_ms,
        "query_p99_ms": query.quantile_ms(0.99),
        "not_estimable_ms": refusal.median_ms,
        "append_ms": append.alone.median_ms,
        "append_and_query_ms": append.with_query.median_ms,
        "answer_ms": answers.median_ms,
        "dense_ms": dense.ms,
        "variance_difference": dense.difference,
    }


class Space:
    """Rows in play, without the engine around them."""

    def __init__(self, max_rows: int) -> None:
        self._rows = RowsInPlay(max_rows=max_rows, most_records=MOST_RECORDS)

    def extend(self, measurements: Iterable[Measurement]) -> None:
        """Take in rows at once."""
        for measurement in measurements:
            self._rows.note(measurement)
        self._rows.catch_up()

    def combinations(self, query: LinearQuery) -> Combinations | None:
        """All unbiased weights of a query."""
        return self._rows.combinations(query)


def resident_mb() -> float:
    """Memory that the process holds, in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def _times(ask: Callable[[LinearQuery], object], queries: Sequence[LinearQuery]) -> Times:
    """Times of `ask`; rows are brought to primitive form first, as the server does."""
    return times_of(partial(ask, primitive(q).row) for q in queries)


def _answer_times(case: Case, rows: Sequence[Measurement]) -> Times:
    """The whole way to an interval: weights of the shortest tail, estimate, half-width."""
    engine = InferenceEngine(case.rows[0].sizes, max_rows=2 * len(case.rows))
    engine.extend(rows)
    engine.catch_up()

    def ask(row: Primitive) -> None:
        if engine.estimate(row, confidence=CONFIDENCE) is None:
            raise RuntimeError("The query does not lie in the row space.")

    return times_of(partial(ask, primitive(q)) for q in case.answerable[:10])


@dataclass(frozen=True)
class _Appends:
    alone: Times
    with_query: Times


def _append_times(
    space: Space, extra: Sequence[Measurement], queries: Sequence[LinearQuery]
) -> _Appends:
    """Rows one by one, each followed by a query: what an append leaves to do later counts too."""
    alone, both = [], []
    for row, query in zip(extra, queries, strict=False):
        asked = primitive(query).row
        append = times_of([partial(space.extend, [row])]).ms[0] / 1000
        rest = times_of([partial(space.combinations, asked)]).ms[0] / 1000
        alone.append(append)
        both.append(append + rest)
    return _Appends(Times.of_seconds(alone), Times.of_seconds(both))


@dataclass(frozen=True)
class _Dense:
    """Median time of dense least squares and the largest relative difference of variances."""

    ms: float | None
    difference: float | None


def _dense(case: Case, rows: Sequence[Measurement]) -> _Dense:
    """The same weights by least squares over all classes: min |y| with (H / b)' y = q."""
    if len(rows) > LARGEST_DENSE or case.rows[0].sizes == LARGE_DOMAIN:
        return _Dense(None, None)
    segments = Segments.of([*case.rows, *case.answerable])
    scales = np.array([m.scale for m in rows])
    matrix = (np.array([segments.dense(m.row) for m in rows]) / scales[:, None]).T
    space = Space(len(rows))
    space.extend(rows)
    differences, seconds = [], []
    for query in case.answerable[:3]:
        row = primitive(query).row
        target = segments.dense(row)
        solve = partial(_least_squares, matrix, target)
        seconds.append(times_of([solve]).ms[0] / 1000)
        found = space.combinations(row)
        if found is None:
            raise RuntimeError("The query does not lie in the row space.")
        variance = 2.0 * float(np.square(found.least * scales[found.noise.ids]).sum())
        expected = 2.0 * float(np.square(solve()).sum())
        differences.append(abs(variance - expected) / expected)
    return _Dense(Times.of_seconds(seconds).median_ms, max(differences))


def _least_squares(
    matrix: npt.NDArray[np.float64], target: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    return np.asarray(np.linalg.lstsq(matrix, target, rcond=None)[0])


def _cut(n_rows: int, n: int) -> Case:
    source = QuerySource.seeded(LINE, SEED)
    cuts = [source.breakpoints(n_rows // 3 + 2)]
    n_all = n_rows + 3 * n
    drawn = different([source.box(cuts) for _ in range(4 * n_all)], n_all)
    rows, extra = drawn[:n_rows], drawn[n_rows : n_rows + n]
    answerable = connected(rows, drawn[n_rows + n :])[:n]
    others = different([source.box() for _ in range(2 * n)], n)
    return Case("ranges", rows, extra, answerable, others)


def connected(rows: Sequence[LinearQuery], queries: Sequence[LinearQuery]) -> list[LinearQuery]:
    """The ranges that the rows answer: their ends are joined by a path of rows."""
    parent: dict[int, int] = {}

    def root(cut: int) -> int:
        while parent.setdefault(cut, cut) != cut:
            cut = parent[cut]
        return cut

    for row in rows:
        low, high = ends_of(row)
        parent[root(low)] = root(high)
    return [q for q in queries if len({root(cut) for cut in ends_of(q)}) == 1]


def ends_of(query: LinearQuery) -> list[int]:
    """The two ends of a range on the only attribute."""
    weights = query.terms[0].factors[0].weights if query.terms[0].factors else None
    if weights is None:
        return [0, query.sizes[0]]
    low = 0 if weights.values[0] else weights.stops[0]
    return [low, weights.stops[weights.values.index(1)]]


def _free(n_rows: int, n: int) -> Case:
    source = QuerySource.seeded(LINE, SEED + 1)
    drawn = different([source.box() for _ in range(2 * (n_rows + 2 * n))], n_rows + 2 * n)
    return _independent("free ranges", source, drawn, n_rows, n)


def _small(n_rows: int, n: int) -> Case:
    return _predicates("predicates, 10^4 cells", SMALL_DOMAIN, n_rows, n)


def _large(n_rows: int, n: int) -> Case:
    return _predicates("predicates, 10^12 cells", LARGE_DOMAIN, n_rows, n)


def _predicates(kind: str, sizes: tuple[int, ...], n_rows: int, n: int) -> Case:
    source = QuerySource.seeded(sizes, SEED + 2)
    n_all = n_rows + 2 * n
    drawn = different([source.predicate(3) for _ in range(n_all + 50)], n_all)
    return _independent(kind, source, drawn, n_rows, n)


def _independent(
    kind: str, source: QuerySource, drawn: list[LinearQuery], n_rows: int, n: int
) -> Case:
    """Independent rows answer no single new range: the queries are sums of three rows."""
    rows, extra, others = drawn[:n_rows], drawn[n_rows : n_rows + n], drawn[n_rows + n :]
    answerable = different([source.combination(rows, 3) for _ in range(2 * n)], n)
    return Case(kind, rows, extra, answerable, others)
