"""The tracing attack against its structural bound, on exact and on private releases.

Records are those of the published networks: public, so that the attack may be run and shown. The
noise of private releases is simulated with a seed; it is not the worker's.

`complexity` is the number of independent parameters, `reference` the records that the attacker
has. Power is at 5 percent false positives. `finite_bound` holds for this number of records and
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.models.network.learning.allocations import Allocation
from qserver.models.network.network import Network
from qserver.models.network.structure import (
    Structure,
    complexity,
    correlations,
    greedy_structure,
    structure_of_edges,
)
from qserver.models.tracing.attack import Roc, TracingAttack, fitted
from qserver.models.tracing.bound import PrivacyCap, TracingBound
from tests.models.network.simulated_learning import learn

from .published_networks import published, records
from .simulated_tables import SimulatedTables
from .tables import Report, Value

SEED = 20_240_601
N_SPLITS, N_QUICK = 30, 2
N_REFERENCE, N_OTHERS = 5_000, 2_000
FPR = 0.05
SMALL_PRIOR = 0.01
# Where the bound on alarm is 0.728.
N_PRIVATE = 691
MIN_GAIN = 0.01
Records = NDArray[np.intp]


@dataclass(frozen=True)
class Case:
    """One row: what is released of whom, and whom the attacker compares with.

    Args:
        name: what is released.
        structure: of the released model.
        n: records that it is learnt from.
        source: gives the records of a split, enough for pool, reference and others.
        epsilon: of the release, add-remove; None for exact parameters.
        population: structure of the attacker's own model; None for the released one.
        allocation: of epsilon, where there is one.
        prior: Dirichlet parameter of released and attacker's models; 1 is the paper's.
    """

    name: str
    structure: Structure
    n: int
    source: Callable[[np.random.Generator], Records] = field(repr=False)
    n_reference: int = N_REFERENCE
    epsilon: float | None = None
    population: Structure | None = None
    prior: float = 1.0
    allocation: Allocation = "best"


@dataclass(frozen=True)
class Split:
    """What the attack found on one split."""

    auc: float
    power: float


def run(*, quick: bool) -> Report:
    """Area and power of the attack, means over splits, beside the bound and the cap."""
    n_splits = N_QUICK if quick else N_SPLITS
    cases = list(_cases())
    return Report(
        name="tracing",
        title="Tracing attack: area under the curve and power, measured against the bound",
        parameters={
            "seed": SEED,
            "splits": n_splits,
            "others": N_OTHERS,
            "fpr": FPR,
            "small_prior": SMALL_PRIOR,
            "min_gain": MIN_GAIN,
        },
        rows=tuple(_row(case, n_splits) for case in cases),
    )


def _cases() -> Iterator[Case]:
    fair = structure_of_edges({f"x{i}": ("0", "1") for i in range(250)}, [])
    for n in (100, 250, 1000):
        yield Case("250 fair bits", fair, n, lambda g: g.integers(0, 2, (8_000, 250)))
    for name, sizes in {
        "asia": (100, 1000),
        "sachs": (200, 1000, 3000),
        "child": (200, 1000, 3000),
        "alarm": (200, 500, 1000, 3000),
    }.items():
        for n in sizes:
            yield Case(name, published(name).structure, n, _shuffled(name))
    for name in ("sachs", "alarm"):
        yield Case(
            f"{name}, prior {SMALL_PRIOR}",
            published(name).structure,
            200,
            _shuffled(name),
            prior=SMALL_PRIOR,
        )
    yield from _greedy_cases()
    yield from alarm_cases()


def alarm_cases() -> Iterator[Case]:
    """Alarm where its bound is 0.728: exact, then private."""
    alarm = published("alarm").structure
    yield Case("alarm, exact", alarm, N_PRIVATE, _shuffled("alarm"))
    allocations: tuple[Allocation, ...] = ("best", "uniform")
    for allocation in allocations:
        for epsilon in (1.0, 10.0, 100.0):
            yield Case(
                f"alarm, {allocation}",
                alarm,
                N_PRIVATE,
                _shuffled("alarm"),
                epsilon=epsilon,
                allocation=allocation,
            )


def _greedy_cases() -> Iterator[Case]:
    """Structures of equation 3, learnt from all the records, as in the paper."""
    network = published("alarm")
    labels = {v.name: v.labels for v in network.structure.variables}
    corr = correlations_of(records("alarm"), network.structure)
    found = {
        most: greedy_structure(labels, corr, max_parents=most, min_gain=MIN_GAIN)
        for most in (0, 1, 2, 3)
    }
    for most, structure in found.items():
        yield Case(f"alarm, {most} parents", structure, 1000, _shuffled("alarm"))
    noise = np.triu(np.random.default_rng(SEED).random(corr.shape), 1)
    random = greedy_structure(labels, noise + noise.T + np.eye(len(noise)), max_parents=2)
    yield Case("alarm, random 2 parents", random, 1000, _shuffled("alarm"))
    yield Case(
        "alarm, 1 parent; attacker has 3",
        found[1],
        1000,
        _shuffled("alarm"),
        population=found[3],
    )
    yield Case("alarm, 3 parents", found[3], 1000, _shuffled("alarm"), n_reference=1000)


def correlations_of(found: Records, structure: Structure) -> NDArray[np.float64]:
    """Cramer's V of every pair of public records' attributes."""

    def table(one: str, other: str) -> NDArray[np.float64]:
        i, j = structure.index(one), structure.index(other)
        counts = np.zeros((structure.sizes[i], structure.sizes[j]))
        np.add.at(counts, (found[:, i], found[:, j]), 1.0)
        return counts

    return correlations(structure.names, table)


def _shuffled(name: str) -> Callable[[np.random.Generator], Records]:
    return lambda generator: generator.permutation(records(name))


def _row(case: Case, n_splits: int) -> dict[str, Value]:
    splits = [_split(case, np.random.default_rng([SEED, i])) for i in range(n_splits)]
    areas = np.array([s.auc for s in splits])
    powers = np.array([s.power for s in splits])
    c = complexity(case.structure)
    bound = TracingBound(c, case.n)
    cap = None if case.epsilon is None else PrivacyCap(case.epsilon).auc
    return {
        "release": case.name,
        "complexity": c,
        "records": case.n,
        "complexity_per_record": c / case.n,
        "reference": case.n_reference,
        "epsilon": case.epsilon,
        "attack_auc": float(areas.mean()),
        "standard_error": float(areas.std(ddof=1) / sqrt(n_splits)),
        "finite_bound_auc": TracingBound(c, case.n, case.n_reference).auc,
        "bound_auc": bound.auc,
        "cap_auc": cap,
        "attack_power": float(powers.mean()),
        "power_error": float(powers.std(ddof=1) / sqrt(n_splits)),
        "bound_power": float(bound.power(FPR)),
    }


def _split(case: Case, generator: np.random.Generator) -> Split:
    roc = roc_of(case, generator)
    return Split(roc.auc.value, float(roc.power(FPR)))


def roc_of(case: Case, generator: np.random.Generator) -> Roc:
    """The attack on one split."""
    rows = case.source(generator)
    stops = np.cumsum([case.n, case.n_reference, N_OTHERS])
    pool, reference, others, _ = np.split(rows, stops)
    released = _released(case, pool, generator)
    population = fitted(case.population or case.structure, reference, prior=case.prior)
    attack = TracingAttack(released, population)
    return Roc(attack.scores(pool), attack.scores(others))


def _released(case: Case, pool: Records, generator: np.random.Generator) -> Network:
    """Exact parameters, or those that an allocation learns for epsilon."""
    if case.epsilon is None:
        return fitted(case.structure, pool, prior=case.prior)
    source = SimulatedTables(case.structure, pool, generator)
    return learn(case.structure, source, epsilon=case.epsilon, allocation=case.allocation).network
