"""What the same questions cost under pure privacy, and under zcdp with Gaussian noise.

`pure` is epsilon; `zcdp` is epsilon at delta 1e-9 of the `rho` that is spent. Both by the planner
with the same settings, one seed that chose nothing. `gain` is the one over the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from qserver.query.requirement import DEFAULT_PHI
from qserver.records.charge import NANO, Relation
from qserver.records.history import TableMeasurement
from qserver.records.privacy.conversion import epsilon_nano
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw

from .adult_questions import SIZES, mixed_predicates
from .blocks_spend import STREAMS
from .many_streams import MANY_STREAMS
from .play import Played, play, snapshot_for
from .streams import Asked
from .tables import Report, Value

SEED, DELTA = 431_128, Fraction(1, 10**9)
_N = {
    "1 to 4 of 15": 500,
    "alarm, cells of 1 to 3 of 26": 200,
    "child, sets on 1 to 3 of 20": 200,
    "Adult, 1 to 3 of 14": 200,
    "Adult, ranges and GROUP BYs": 100,
    "4 pairs of 15 and others": 400,
}
_N_OF_BLOCKS = {
    ("citibike", "add-remove"): 1_500,
    ("citibike", "replace-one"): 500,
    ("1-D ranges", "add-remove"): 100,
    ("boxes on 50 x 50", "add-remove"): 60,
}


_N_MIXED = 300


@dataclass(frozen=True)
class _Stream:
    name: str
    sizes: tuple[int, ...]
    relation: Relation
    questions: Callable[[], Sequence[Asked]]
    n: int


def run(*, quick: bool) -> Report:
    """Every stream under both laws."""
    streams = _streams(20 if quick else None)
    return Report(
        name="zcdp",
        title="Epsilon spent under pure privacy and under zcdp, one seed",
        parameters={"seed": SEED, "phi": DEFAULT_PHI, "delta": float(DELTA)},
        rows=tuple(_row(stream) for stream in (streams[-1:] if quick else streams)),
    )


def _streams(most: int | None) -> list[_Stream]:
    found = list[_Stream]()
    for many in MANY_STREAMS:
        if many.name in _N:
            n = min(_N[many.name], most or _N[many.name])
            found.append(
                _Stream(many.name, many.sizes, "add-remove", partial(many.questions, SEED, n), n)
            )
    n = min(_N_MIXED, most or _N_MIXED)
    mixed = partial(_mixed, n)
    found.append(_Stream("mixed predicates on 6 of Adult", SIZES, "add-remove", mixed, n))
    for one in STREAMS:
        n = _N_OF_BLOCKS.get((one.name, one.relation), 0)
        if n:
            n = min(n, most or n)
            asked = partial(lambda s, k: list(s.questions(SEED, k)), one, n)
            found.append(_Stream(one.name, one.sizes, one.relation, asked, n))
    return found


def _mixed(n: int) -> list[Asked]:
    return list(mixed_predicates(SEED, n=n))


def _row(stream: _Stream) -> dict[str, Value]:
    (pure, _), (zcdp, n_tables) = (_played(stream, law) for law in (LAPLACE, GAUSSIAN))
    rho = zcdp.spent[-1]
    epsilon = epsilon_nano(round(rho * NANO), DELTA) / NANO
    return {
        "stream": stream.name,
        "relation": stream.relation,
        "questions": stream.n,
        "pure": pure.spent[-1],
        "zcdp": epsilon,
        "rho": rho,
        "gain": pure.spent[-1] / epsilon,
        "tables": n_tables,
        "checked": zcdp.checked,
        "violated": zcdp.violated,
        "pure_p50_ms": pure.times.median_ms,
        "p50_ms": zcdp.times.median_ms,
        "pure_p99_ms": pure.times.quantile_ms(0.99),
        "p99_ms": zcdp.times.quantile_ms(0.99),
    }


def _played(stream: _Stream, law: NoiseLaw) -> tuple[Played, int]:
    """The stream under one law, and how many tables were measured."""
    snapshot = snapshot_for(
        stream.sizes, relation=stream.relation, phi=DEFAULT_PHI, seed=SEED, law=law
    )
    played = play(snapshot, stream.questions())
    return played, sum(isinstance(m, TableMeasurement) for m in snapshot.live)
