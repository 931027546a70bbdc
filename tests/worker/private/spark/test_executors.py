"""What runs on Spark's machines, and what an owner types for it; without any Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qserver
from qserver.errors import ConfigError, MeasurementError, PrivateDataError
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import indicator
from tests.worker.codes import codes_of
from tests.worker.private.reading import KEY, snapshot_of
from tests.worker.sources.tables import DOMAIN, as_parquet, random_rows
from worker.coding.coder import coder_of
from worker.coding.tally import Tally
from worker.private.spark.coding import _Coding
from worker.private.spark.executors import (
    answering,
    axes_of,
    coding,
    counting,
    keeping,
    telling_version,
)
from worker.private.spark.tables import rest_of_slot
from worker.private.spark_place import SparkCodes, SparkPlace, column_names, place_of
from worker.private.truncation import PeriodRule, PersonRule
from worker.sources.address import Address
from worker.sources.spark import within

NAMES = column_names(DOMAIN.sizes)
RULES = (PersonRule("person", 2), PersonRule("person", 4, PeriodRule(3, 2, 4)))


def coded(path: Path, *, person: str = "") -> pa.Table:
    """The batches that Spark's machines would write, each coded by itself, as two of them."""
    with coder_of(DOMAIN, person_column=person) as coder:
        names = coder.columns
    batches = pq.read_table(path, columns=names).select(names).to_batches(max_chunksize=70)
    step = coding(DOMAIN, person)
    half = len(batches) // 2
    return pa.Table.from_batches([*step(iter(batches[:half])), *step(iter(batches[half:]))])


def records(table: pa.Table) -> pa.Table:
    return table.filter(pa.compute.is_null(table.column("tally")))


def pieces(table: pa.Table, axes: list[int]) -> Iterator[pa.RecordBatch]:
    yield from table.select([NAMES[axis] for axis in axes]).to_batches(max_chunksize=37)


@pytest.mark.slow
def test_codes_and_tally_are_those_of_one_machine(tmp_path: Path) -> None:
    data = as_parquet(tmp_path / "rows.parquet", random_rows(1, 900))
    expected = snapshot_of(data, DOMAIN, folder=tmp_path)
    table = coded(data.path)
    found = records(table)
    rows = sorted(zip(*(found.column(name).to_pylist() for name in NAMES), strict=True))
    assert rows == sorted(zip(*(c.tolist() for c in codes_of(expected)), strict=True))
    tally = Tally.of(DOMAIN)
    for text in table.column("tally").drop_null().to_pylist():
        tally.add_plain(text)
    with coder_of(DOMAIN) as coder:
        for batch in pq.read_table(data.path, columns=coder.columns).to_batches():
            coder.of(batch.select(coder.columns))
        assert tally.lines() == coder.tally.lines()


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_a_persons_records_are_kept_by_the_same_rule_wherever_a_batch_ends(
    tmp_path: Path, rule: PersonRule
) -> None:
    data = as_parquet(tmp_path / "rows.parquet", random_rows(2, 1500) * 2)
    expected = snapshot_of(data, DOMAIN, folder=tmp_path, person=rule)
    grouped = records(coded(data.path, person="person")).drop_columns("tally").sort_by("person")
    step = keeping(DOMAIN.sizes, rule, KEY)
    found = pa.Table.from_batches([*step(iter(grouped.to_batches(max_chunksize=5)))])
    rows = sorted(zip(*(found.column(name).to_pylist() for name in NAMES), strict=True))
    assert rows == sorted(zip(*(c.tolist() for c in codes_of(expected)), strict=True))
    assert 0 < len(rows) < grouped.num_rows


@pytest.mark.slow
def test_partial_answers_add_up_to_those_of_one_machine(tmp_path: Path) -> None:
    data = as_parquet(tmp_path / "rows.parquet", random_rows(3, 900))
    whole = snapshot_of(data, DOMAIN, folder=tmp_path).table
    found, sizes = records(coded(data.path)), DOMAIN.sizes
    some, women = {0: indicator(sizes[0], [2, 3])}, {1: indicator(sizes[1], [0])}
    query = linear_query(sizes, [(Fraction(1, 3), some), (-2, women)])
    for asked in (query, total_query(sizes)):
        (batch,) = answering(asked)(pieces(found, axes_of(asked)))
        assert Fraction(batch.column("answer")[0].as_py()) == whole.answer(asked)
    by_cell = product_partition(sizes, {0: list(range(sizes[0])), 3: list(range(sizes[3]))})
    (batch,) = counting(by_cell)(pieces(found, axes_of(by_cell)))
    counts = np.frombuffer(batch.column("counts")[0].as_py(), dtype="<i8")
    assert counts.tolist() == whole.counts(by_cell)


def test_a_part_without_records_counts_none() -> None:
    """Spark may give a machine no rows at all."""
    query, by_cell = total_query(DOMAIN.sizes), product_partition(DOMAIN.sizes, {1: [0, 1, 1]})
    (batch,) = answering(query)(iter(()))
    assert batch.column("answer").to_pylist() == ["0"]
    (batch,) = counting(by_cell)(iter(()))
    assert batch.column("counts").to_pylist() == [bytes(16)]


@pytest.mark.parametrize("code", [-1, DOMAIN.sizes[1], 300])
def test_a_code_that_is_none_is_refused(code: int) -> None:
    """300 would be 44 in eight bits."""
    query = linear_query(DOMAIN.sizes, [(1, {1: indicator(DOMAIN.sizes[1], [0])})])
    column = pa.array([0, code], pa.int32())
    batch = pa.RecordBatch.from_arrays([column], names=["c1"])
    with pytest.raises(MeasurementError):
        list(answering(query)(iter([batch])))


def test_every_machine_tells_its_version() -> None:
    row = pa.RecordBatch.from_arrays([pa.array([0])], names=["id"])
    (batch,) = telling_version()(iter([row]))
    assert batch.column("version").to_pylist() == [qserver.__version__]


@pytest.mark.parametrize(
    ("folder", "slot_s", "told"),
    [
        ("/codes", None, "given together"),
        ("", 2.0, "given together"),
        ("codes", 2.0, "whole path or URI"),
        ("/codes", 0.0, "above 0"),
        ("/codes", 121.0, "at most 120"),
        ("s3a://user:hunter2@bucket/codes", 2.0, "no password"),
    ],
)
def test_a_place_that_cannot_be_is_refused(folder: str, slot_s: float | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as found:
        place_of(folder, slot_s)
    assert "hunter2" not in str(found.value)


def test_where_codes_are_is_written_down_without_a_secret() -> None:
    place = place_of("s3a://bucket/codes/", 2.5)
    assert place == SparkPlace("s3a://bucket/codes/", 2.5)
    assert place_of("", None) is None
    address = "spark-connect://spark:15002/;token={env:SPARK_TOKEN}"
    codes = SparkCodes(address, ("spark.x=1",), place, "qserver-1", "salt", "3 1 2")
    assert SparkCodes.of_plain(codes.to_plain()) == codes
    assert codes.path == "s3a://bucket/codes/qserver-1"
    assert codes.address.kind == "spark-connect"


@pytest.mark.parametrize(
    "text",
    ["spark-connect://h:15002/;token=hunter2", "spark://me:hunter2@h:7077", "spark://[h:7077"],
)
def test_an_address_that_holds_a_secret_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as found:
        Address(text, table="visits")
    assert "hunter2" not in str(found.value)


def test_an_address_needs_a_table_or_a_query() -> None:
    with pytest.raises(ConfigError, match="either --table or --query"):
        Address("spark://h:7077")
    assert Address("spark://h:7077", table="visits").is_spark
    assert not Address("sqlite:///a.db", table="visits").is_spark


def test_a_look_at_the_codes_takes_whole_slots() -> None:
    """So that its time does not tell how many records there are."""
    assert rest_of_slot(0.5, slot_s=2.0) == 1.5
    assert rest_of_slot(2.0, slot_s=2.0) == 0
    assert rest_of_slot(4.5, slot_s=2.0) == 1.5


def test_what_does_not_come_in_time_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(PrivateDataError, match="does not answer within"):
        within(0.01, never.wait)
    never.set()
    assert within(60, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_an_owner_is_told_of_a_folder_that_could_not_be_emptied() -> None:
    """Spark is away, and its own words are not repeated."""

    class Away:
        def createDataFrame(self, *_rows: object) -> None:  # noqa: N802 - Spark's name
            raise RuntimeError("Female")

    made, said = object.__new__(_Coding), list[str]()
    made._session, made._domain = Away(), DOMAIN
    made.empty("s3a://bucket/codes.staged", said.append)
    assert said == ["s3a://bucket/codes.staged could not be emptied: delete it, if it is there"]
