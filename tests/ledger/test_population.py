"""What people of several snapshots lose, against every set of snapshots that one may be in."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.ledger import population
from qserver.ledger.constants import LIMITS
from qserver.ledger.population import Pair, PopulationLoss, pair, pairs_of

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "`spent` is what the worst person can have lost over datasets, snapshots and declared "
        "pairs",
    ),
]

NAMES = [f"s{i}" for i in range(8)]
EVERY_PAIR = list(itertools.combinations(NAMES, 2))
SHARES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9))
PAIRS = st.sets(st.sampled_from(EVERY_PAIR)).map(frozenset)


def worst_person(shares: Mapping[str, int], pairs: frozenset[Pair], *, of: str = "") -> int:
    """The greatest loss over all sets of snapshots without a pair: by trying them all.

    Args:
        of: a snapshot that the person is in; any person by default.
    """
    worst = 0
    for size in range(len(shares) + 1):
        for held in itertools.combinations(sorted(shares), size):
            if of and of not in held:
                continue
            if not any(two in pairs for two in itertools.combinations(held, 2)):
                worst = max(worst, sum(shares[k] for k in held))
    return worst


@given(SHARES, PAIRS)
def test_spent_is_what_the_worst_person_has_lost(
    shares: dict[str, int], pairs: frozenset[Pair]
) -> None:
    assert PopulationLoss(shares, pairs).spent_nano == worst_person(shares, pairs)


@given(SHARES, PAIRS)
def test_lost_is_what_the_worst_person_of_a_snapshot_has_lost(
    shares: dict[str, int], pairs: frozenset[Pair]
) -> None:
    loss = PopulationLoss(shares, pairs)
    for name in shares:
        assert loss.lost_nano(name) == worst_person(shares, pairs, of=name)


def test_a_pair_says_nothing_of_a_third_snapshot() -> None:
    """East and lab hold the same people; both are disjoint from west."""
    shares = {"east": 950, "west": 0, "lab": 950}
    loss = PopulationLoss(shares, frozenset({("east", "west"), ("lab", "west")}))
    assert loss.spent_nano == loss.lost_nano("east") == 1900
    assert loss.lost_nano("west") == 0


def test_pairs_may_be_written_from_either_side() -> None:
    assert pairs_of({"b": ["a", "c"], "c": ["b"]}) == {("a", "b"), ("b", "c")}
    assert pair("b", "a") == pair("a", "b")


@pytest.mark.parametrize("seed", range(12))
def test_sixty_snapshots_are_exact(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search without a bound on its nodes finds nothing else."""
    loss = _random_loss(60, seed)
    found = loss.spent_nano
    monkeypatch.setattr(population, "LIMITS", replace(LIMITS, population_nodes=10**9))
    assert found == PopulationLoss(loss.shares, loss.pairs).spent_nano
    assert found >= _some_set(loss)


@pytest.mark.parametrize("max_nodes", [1, 7, 40])
def test_a_search_that_is_cut_short_bounds_the_loss_from_above(
    max_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(20):
        loss = _random_loss(12, seed)
        exact = worst_person(loss.shares, loss.pairs)
        monkeypatch.setattr(population, "LIMITS", replace(LIMITS, population_nodes=max_nodes))
        bound = PopulationLoss(loss.shares, loss.pairs).spent_nano
        monkeypatch.undo()
        assert exact <= bound <= sum(loss.shares.values())


@pytest.mark.parametrize("declared", [False, True])
def test_hundreds_of_rotations(declared: bool) -> None:
    names = [f"r{i:04}" for i in range(1200)]
    pairs = frozenset(itertools.combinations(names[:200], 2)) if declared else frozenset[Pair]()
    shares = {name: i % 7 for i, name in enumerate(names[:200] if declared else names)}
    expected = 6 if declared else sum(shares.values())
    assert PopulationLoss(shares, pairs).spent_nano == expected


def test_components_are_searched_one_by_one() -> None:
    """Twelve rings of five, where no two neighbours share a person: two of each ring count."""
    rings = [[f"r{i:02}{j}" for j in range(5)] for i in range(12)]
    pairs = frozenset(pair(ring[j], ring[(j + 1) % 5]) for ring in rings for j in range(5))
    shares = {name: 10 for ring in rings for name in ring}
    assert PopulationLoss(shares, pairs).spent_nano == 12 * 20


def test_thousands_of_pairs_that_nothing_joins() -> None:
    names = [(f"a{i:04}", f"b{i:04}") for i in range(1200)]
    shares = {name: 1 + i % 2 for i, name in enumerate(itertools.chain(*names))}
    assert PopulationLoss(shares, frozenset(names)).spent_nano == 2 * 1200


@pytest.mark.slow
def test_a_long_chain_is_bounded() -> None:
    names = [f"c{i:04}" for i in range(1500)]
    loss = PopulationLoss(dict.fromkeys(names, 1), frozenset(itertools.pairwise(names)))
    assert 750 <= loss.spent_nano <= 1500


def test_nobody_has_lost_anything_without_snapshots() -> None:
    assert PopulationLoss({}).spent_nano == 0
    assert PopulationLoss({"a": 3}).lost_nano("b") == 3


def _random_loss(n: int, seed: int) -> PopulationLoss:
    rng = random.Random(seed)
    names, density = [f"s{i:02}" for i in range(n)], rng.random()
    pairs = (two for two in itertools.combinations(names, 2) if rng.random() < density)
    shares = {name: rng.choice([1, 2, rng.randrange(1, 10**9)]) for name in names}
    return PopulationLoss(shares, frozenset(pairs))


def _some_set(loss: PopulationLoss) -> int:
    """The weight of a set without a pair, by taking the heaviest that still fits."""
    held: list[str] = []
    for name in sorted(loss.shares, key=lambda k: -loss.shares[k]):
        if not any(pair(name, other) in loss.pairs for other in held):
            held.append(name)
    return sum(loss.shares[name] for name in held)
