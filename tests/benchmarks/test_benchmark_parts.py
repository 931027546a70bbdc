"""What the benchmarks are made of: times, tables, dense vectors, best prices in hindsight."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from tests.benchmarks import reading
from tests.benchmarks.budget_methods import Asked, Counts
from tests.benchmarks.endurance.stream import Stream
from tests.benchmarks.hindsight import Blocks, Chain, Target, best_price
from tests.benchmarks.machine import Times
from tests.benchmarks.ranges import Question, holds
from tests.benchmarks.tables import Report, value_text, with_table
from tests.benchmarks.workloads import QuerySource, Segments
from tests.worker.codes import codes_of


def test_a_violated_interval_is_counted() -> None:
    """An interval holds the truth at its very ends, and not one record beyond them."""
    counts = Counts.seeded((5,), 1)
    query = QuerySource.seeded((5,), 1).box().scaled(3)
    question = Question(primitive(query), Requirement(10.0, 0.95))
    truth = 3.0 * int(counts.cells[: query.sizes[0]] @ _dense(query))
    assert holds(counts, question, Asked(measured=True, low=truth, high=truth))
    assert not holds(counts, question, Asked(measured=True, low=truth + 1, high=truth + 2))
    assert not holds(counts, question, Asked(measured=True, low=truth - 2, high=truth - 1))


@pytest.mark.parametrize("n", [1, 2, 10, 99, 100, 101])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.99])
def test_a_quantile_is_the_least_time_that_so_many_calls_did_not_pass(n: int, level: float) -> None:
    times = Times.of_seconds(float(i) for i in range(n, 0, -1))
    enough = [t for t in times.ms if sum(u <= t for u in times.ms) >= level * n - 1e-9]
    assert times.quantile_ms(level) == min(enough)
    assert times.median_ms == times.quantile_ms(0.5)


def test_times_are_of_at_least_one_call() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Times.of_seconds([])


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (3, "3"), (0.0, "0"), (1.25, "1.25"), (1234.5, "1234"), (1.2e-7, "1.2e-07")],
)
def test_numbers_are_shown_to_three_digits(value: float | None, text: str) -> None:
    assert value_text(value) == text


def test_a_report_has_rows_of_the_same_columns() -> None:
    with pytest.raises(ValueError, match="same columns"):
        Report("x", "x", {}, ({"a": 1}, {"b": 1}))


def test_a_table_replaces_only_what_stands_between_its_marks() -> None:
    text = "before\n<!-- table: x -->\nold\n<!-- end: x -->\nafter\n"
    assert with_table(text, "x", "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="a place"):
        with_table(text, "y", "new")


def test_dense_vectors_agree_with_the_query_cell_by_cell() -> None:
    source = QuerySource.seeded((4, 3, 5), 3)
    queries = [source.predicate(2), source.box(), source.combination([source.box()] * 3, 2)]
    segments = Segments.of(queries)
    assert len(segments.cells) == math.prod(segments.sizes)
    for query in queries:
        expected = [float(query.value_at(cell)) for cell in segments.cells.tolist()]
        np.testing.assert_array_equal(segments.dense(query), expected)


def test_blocks_give_the_weights_of_dense_least_squares() -> None:
    """All cells of all blocks as rows: the least-norm solution has the same error scales."""
    blocks = Blocks((Chain((1, 2, 4)), Chain((1, 3))))
    generator = np.random.default_rng(4)
    alphas = generator.uniform(0.5, 2.0, len(blocks.levels))
    target = Target((generator.normal(size=4), generator.normal(size=3)), 1.0)
    rows, scales = [], []
    for alpha, (i, j) in zip(alphas, blocks.levels, strict=True):
        cells = np.kron(blocks.chains[0].sums[i], blocks.chains[1].sums[j])
        rows.append(cells)
        scales.extend([1 / alpha] * len(cells))
    matrix = np.vstack(rows).T / np.array(scales)
    query = np.kron(*target.vectors)
    expected = np.linalg.lstsq(matrix, query, rcond=None)[0]
    np.testing.assert_allclose(blocks.scales(target, alphas), np.abs(expected), atol=1e-12)
    variance = float(blocks.energies(target) @ (1 / blocks.information(alphas)))
    assert variance == pytest.approx(2 * float(expected @ expected), rel=1e-12)


def test_in_hindsight_a_single_total_costs_one_unit() -> None:
    blocks = Blocks((Chain((1, 2, 4)),))
    price = best_price(blocks, [Target((np.ones(4),), 10.0)], confidence=0.95)
    assert price == pytest.approx(math.log(20) / 10, rel=1e-2)
    both = [Target((np.ones(4),), 10.0), Target((np.array([1.0, 0, 0, 0]),), 10.0)]
    assert price < best_price(blocks, both, confidence=0.95) < 2 * price


@pytest.mark.parametrize("parts", [(), (2, 4), (1, 2, 5), (1, 2, 2)])
def test_partitions_that_are_no_chain_are_refused(parts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="each must divide"):
        Chain(parts)


def _dense(query: Any) -> Any:
    (factor,) = query.terms[0].factors or (None,)
    return np.ones(query.sizes[0], dtype=np.int64) if factor is None else factor.weights.dense


def test_most_questions_of_years_were_asked_before() -> None:
    first, again = Stream("d0", 7), Stream("d0", 7)
    asked = [first.next() for _ in range(1_000)]
    assert asked == [again.next() for _ in range(1_000)]
    whole = {json.dumps(one) for one in first.asked}
    n_repeated = sum(1 for one in asked if json.dumps(one) in whole) - len(first.asked)
    assert 550 < n_repeated < 650
    assert 100 < len(first.asked) < 200


@pytest.mark.slow
def test_a_read_in_a_process_of_its_own_finds_the_same_records(tmp_path: Path) -> None:
    """All kinds of sources hold the records that the benchmark makes, and every one of them."""
    found = [
        reading.measured(reading.made(kind, 3_000, tmp_path), tmp_path)
        for kind in ("csv", "duckdb")
    ]
    whole = reading.read(reading.made("parquet", 3_000, tmp_path), tmp_path)
    assert {f["fingerprint"] for f in found} == {whole.fingerprint[:16]}
    assert {f["records"] for f in found} == {3_000}
    bound = reading.read(reading.made("sqlite", 300, tmp_path), tmp_path, most=4)
    assert len(codes_of(bound)[0]) == 120


def test_two_seals_of_the_benchmark_differ_by_one_record(tmp_path: Path) -> None:
    times = reading.one_record(500, tmp_path, n_counts=2)
    assert all(value > 0 for value in times.values())
    assert sorted(p.name for p in tmp_path.glob("*.seal")) == ["0.seal", "1.seal"]
