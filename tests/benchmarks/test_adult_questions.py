"""The stream of mixed predicates has the law that its docstring states, the counts are Adult's."""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter

import pytest

from qserver.cli.local.demo import adult_csv
from tests.benchmarks.adult_questions import (
    ATTRIBUTES,
    CONFIDENCES,
    LEAST_LENGTH,
    MOST_LENGTH,
    ORDERED,
    SIZES,
    adult_cells,
    mixed_predicates,
)

N = 1_000
# Five standard errors of a share of one in two.
ROOM = 5 * math.sqrt(0.25 / N)


def test_a_seed_gives_the_same_stream_again_and_a_longer_one_begins_with_it() -> None:
    keys = [[(a.query.key, a.requirement) for a in mixed_predicates(5, n=n)] for n in (20, 50)]
    assert keys[0] == keys[1][:20]
    assert keys[0] != [(a.query.key, a.requirement) for a in mixed_predicates(6, n=20)]


@pytest.mark.slow
def test_questions_have_one_to_three_attributes_lengths_log_uniform_and_five_confidences() -> None:
    asked = list(mixed_predicates(5, n=N))
    scopes = Counter(len(a.query.row.scope) for a in asked)
    assert set(scopes) == {1, 2, 3}
    assert max(abs(n / N - 1 / 3) for n in scopes.values()) < ROOM
    middle = math.sqrt(LEAST_LENGTH * MOST_LENGTH)
    lengths = [a.requirement.length for a in asked]
    assert LEAST_LENGTH <= min(lengths) <= max(lengths) <= MOST_LENGTH
    assert abs(sum(x < middle for x in lengths) / N - 0.5) < ROOM
    confidences = Counter(a.requirement.confidence for a in asked)
    assert set(confidences) == set(CONFIDENCES)
    assert max(abs(n / N - 0.2) for n in confidences.values()) < ROOM


@pytest.mark.slow
def test_predicates_are_proper_sets_and_on_ordered_attributes_ranges() -> None:
    for asked in mixed_predicates(5, n=N):
        (term,) = asked.query.row.terms
        for factor in term.factors:
            chosen = [v for v, w in enumerate(factor.weights.dense.tolist()) if w]
            assert 0 < len(chosen) < SIZES[factor.axis]
            if factor.axis in ORDERED:
                assert chosen == list(range(chosen[0], chosen[-1] + 1))


@pytest.mark.slow
def test_all_proper_ranges_are_equally_likely() -> None:
    """35 ranges of 8 age bands: none is seen five standard errors more or less than expected."""
    seen = Counter(
        tuple(f.weights.dense.tolist())
        for a in mixed_predicates(7, n=N)
        for t in a.query.row.terms
        for f in t.factors
        if f.axis == 0
    )
    expected = sum(seen.values()) / 35
    assert len(seen) == 35
    assert max(abs(n - expected) for n in seen.values()) < 5 * math.sqrt(expected)


@pytest.mark.parametrize(
    ("column", "text", "axis", "code"),
    [
        ("sex", "Male", 4, 1),
        ("workclass", "?", 1, 8),
        ("education", "Doctorate", 2, 15),
        ("race", "White", 3, 0),
    ],
)
def test_the_cells_count_every_record_in_its_place(
    column: str, text: str, axis: int, code: int
) -> None:
    """Counted again straight from the file."""
    with gzip.open(adult_csv(), mode="rt", encoding="utf-8", newline="") as lines:
        expected = sum(record[column] == text for record in csv.DictReader(lines))
    cells = adult_cells()
    assert cells.sum() == 32_561
    assert cells.take(code, axis=axis).sum() == expected > 0
    assert ATTRIBUTES[axis] == column


def test_ages_and_hours_are_in_bands_of_ten() -> None:
    with gzip.open(adult_csv(), mode="rt", encoding="utf-8", newline="") as lines:
        records = list(csv.DictReader(lines))
    young = sum(int(r["age"]) < 20 for r in records)
    old = sum(int(r["age"]) >= 80 for r in records)
    forties = sum(40 <= int(r["hours-per-week"]) < 50 for r in records)
    cells = adult_cells()
    assert (cells[0].sum(), cells[-1].sum(), cells[..., 4].sum()) == (young, old, forties)
