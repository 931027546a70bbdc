"""A real Spark: the digests of one machine, full scans, a question answered, a Spark that is lost.

`pytest -m spark tests/worker/private/spark`; it needs the extra `spark` and Java 17.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.errors import PrivateDataError, UnanswerableError
from qserver.query.class_grid import product_partition
from qserver.query.domain_file import domain_to_document
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import indicator
from tests.deployment import LOG, PEOPLE, ROWS, Deployment
from tests.worker.private.reading import KEY, snapshot_of
from tests.worker.private.spark.server import SparkServer
from tests.worker.sources.tables import DOMAIN, as_parquet, random_rows
from worker.main_loop import AttachedData
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach
from worker.owner.checks.audit import examine
from worker.private.present_content import read_where_it_stays
from worker.private.snapshot import Snapshot
from worker.private.spark.executors import answering, axes_of
from worker.private.spark.tables import SparkTable
from worker.private.spark_place import SparkPlace
from worker.private.truncation import PeriodRule, PersonRule
from worker.sources.address import Address

# What pyspark and its libraries say of themselves and of each other is none of the product's.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]
SLOT_S = 2.0
RULE = PersonRule("person", 4, PeriodRule(3, 2, 4))


def on_spark(
    spark: SparkServer, data: Address, folder: Path, rule: PersonRule | None = None
) -> Snapshot:
    """What attach would register with --codes."""
    address = Address(spark.address, query=f"SELECT * FROM parquet.`{data.text}`")
    place = SparkPlace(str(folder / "codes"), SLOT_S)
    return read_where_it_stays(
        address,
        DOMAIN,
        place,
        key=KEY,
        folder=folder,
        person=rule,
        say=print,
        empty=False,
        as_it_is=False,
    )


def table_of(snapshot: Snapshot) -> SparkTable:
    assert isinstance(snapshot.table, SparkTable)
    return snapshot.table


def test_codes_counts_and_digests_are_those_of_one_machine(
    spark: SparkServer, tmp_path: Path
) -> None:
    """Where persons' records are left out; and everybody's answers, whole and by cell."""
    data = as_parquet(tmp_path / "rows.parquet", random_rows(11, 4000))
    expected = snapshot_of(data, DOMAIN, folder=tmp_path, person=RULE)
    found = on_spark(spark, data, tmp_path, RULE)
    assert found.fingerprint == expected.fingerprint
    assert found.content.records == expected.content.records
    assert found.content.people == expected.content.people
    assert found.n_records == expected.n_records > 100
    sizes = DOMAIN.sizes
    query = linear_query(
        sizes, [(3, {0: indicator(sizes[0], [2, 3])}), (-1, {1: indicator(sizes[1], [0])})]
    )
    by_cell = product_partition(sizes, {0: list(range(sizes[0])), 3: list(range(sizes[3]))})
    table = table_of(found)
    try:
        for asked in (query, total_query(sizes)):
            assert table.answer(asked) == expected.table.answer(asked)
        assert table.counts(by_cell) == expected.table.counts(by_cell)
    finally:
        table.close()


def test_a_scan_has_no_condition_and_changed_codes_are_not_counted(
    spark: SparkServer, tmp_path: Path
) -> None:
    """By Spark's own physical plan; and one code of one record makes the table refuse."""
    data = as_parquet(tmp_path / "rows.parquet", random_rows(12, 300))
    expected = snapshot_of(data, DOMAIN, folder=tmp_path)
    found = on_spark(spark, data, tmp_path)
    assert found.fingerprint == expected.fingerprint
    assert found.content == replace(expected.content, file="")
    table, sizes = table_of(found), DOMAIN.sizes
    for values in ([0], [5], list(range(sizes[0] - 1))):
        query = linear_query(sizes, [(1, {0: indicator(sizes[0], values)})])
        frame = table.frame(axes_of(query), answering(query), "answer string")
        plan = frame._explain_string(mode="formatted")
        assert "ReadSchema: struct<c0:int>" in plan
        assert "MapInArrow" in plan
        for word in ("Filter", "Limit", "Aggregate", "Sample"):
            assert word not in plan
    table.close()
    (path,) = (tmp_path / "codes").glob("qserver-????????????????/*.parquet")
    rows = pq.read_table(path)
    codes = rows.column("c0").to_pylist()
    changed = pa.array([(codes[0] + 1) % sizes[0], *codes[1:]], pa.int32())
    pq.write_table(rows.set_column(0, "c0", changed), path)
    path.with_name(f".{path.name}.crc").unlink()
    with pytest.raises(UnanswerableError, match="Nothing was charged"):
        table.ready()


def test_rows_can_be_read_from_spark_to_one_machine(spark: SparkServer, tmp_path: Path) -> None:
    """Without --codes Spark is a source as every other."""
    data = as_parquet(tmp_path / "rows.parquet", random_rows(13, 2500))
    expected = snapshot_of(data, DOMAIN, folder=tmp_path, person=RULE)
    address = Address(spark.address, table=f"parquet.`{data.text}`")
    found = snapshot_of(address, DOMAIN, folder=tmp_path, person=RULE)
    assert found.fingerprint == expected.fingerprint


BAD = {
    "nothing at the path": ("SELECT * FROM parquet.`/nowhere/at.all`", "PATH_NOT_FOUND"),
    "no such table": ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
    "no SQL": ("SELEC", "PARSE_SYNTAX_ERROR"),
    "a column is lacking": ("SELECT 1 AS age, 'sekretvalue' AS sex", "it lacks dose"),
    "no rows": ("SELECT * FROM parquet.`{data}` WHERE false", "has no rows"),
    "a row that cannot be computed": (
        "SELECT CAST(raise_error('sekretvalue') AS INT) AS age, sex, dose, day, insured "
        "FROM parquet.`{data}`",
        "broke the job off",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_spark_does_not_give_is_one_line_without_a_value(
    spark: SparkServer, tmp_path: Path, name: str
) -> None:
    data = as_parquet(tmp_path / "rows.parquet", random_rows(15, 50))
    query, told = BAD[name]
    address = Address(spark.address, query=query.format(data=data.text))
    with pytest.raises(PrivateDataError) as found:
        read_where_it_stays(
            address,
            DOMAIN,
            SparkPlace(str(tmp_path / "codes"), SLOT_S),
            key=KEY,
            folder=tmp_path,
            person=None,
            say=print,
            empty=False,
            as_it_is=False,
        )
    assert told in str(found.value)
    assert "sekretvalue" not in str(found.value)
    left = [pq.read_table(p).num_rows for p in (tmp_path / "codes").rglob("*.parquet")]
    assert sum(left) == 0


def test_spark_on_this_machine_is_attached_from_the_command_line(
    tmp_path: Path, store_url: str
) -> None:
    """`spark://local`: as an owner types it, with the codes where they say."""
    data = as_parquet(tmp_path / "rows.parquet", random_rows(16, 200))
    (tmp_path / "domain.json").write_text(json.dumps(domain_to_document(DOMAIN)))
    command = [sys.executable, "-m", "worker", "attach", "visits", "--source", "spark://local:1"]
    command += ["--table", f"parquet.`{data.text}`", "--codes", str(tmp_path / "codes")]
    command += ["--slot", "3", "--domain", str(tmp_path / "domain.json"), "--limit", "1"]
    command += ["--records-per-person", "1"]
    command += ["--state", str(tmp_path / "state"), "--redis-url", store_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "200 rows read" in done.stderr
    assert "Attached visits" in done.stdout
    assert list((tmp_path / "codes").glob("qserver-????????????????/*.parquet"))


def deployed(spark: SparkServer, folder: Path, store_url: str) -> Deployment:
    """A deployment whose one dataset is on Spark."""
    held = Deployment.make(folder, store_url)
    detach("people", settings=held.settings, registry=held.registry, log=LOG)
    ages, sexes = zip(*ROWS, strict=True)
    pq.write_table(pa.table({"age": ages, "sex": sexes}), folder / "people.parquet")
    request = AttachRequest(
        name="people",
        data=Address(spark.address, query=f"SELECT * FROM parquet.`{folder}/people.parquet`"),
        domain=PEOPLE,
        limit=Fraction(1),
        relation="add-remove",
        population="town",
        records_per_person=1,
        phi=20.0,
        place=SparkPlace(str(folder / "codes"), SLOT_S),
    )
    meta = attach(request, settings=held.settings, registry=held.registry, progress=print)
    return replace(held, meta=meta)


def test_a_question_is_answered_and_a_lost_spark_spends_nothing(
    spark: SparkServer, tmp_path: Path, store_url: str
) -> None:
    """Killed, Spark costs nobody anything; back again, it is opened by the next question."""
    held = deployed(spark, tmp_path, store_url)
    data = AttachedData(held.registry, log=LOG).load()
    assert data.refused == ()
    spender = held.spender(trusted=data.trusted)
    truth = sum(sex == "Female" for _, sex in ROWS)

    def asked(where: dict[str, object]) -> object:
        found = held.submit(where, length=100)
        held.work_off(spender)
        return held.service().job(found.id)

    first = asked({"sex": "Female"})
    assert first.problem is None, first  # type: ignore[attr-defined]
    # Beyond 50 halves of the interval only by a chance of exp(-150).
    assert abs(float(first.result.estimate) - truth) < 2500  # type: ignore[attr-defined]
    spent = held.service().dataset("people").spent_nano
    spark.kill()
    try:
        lost = asked({"age": {"between": [22, 23]}})
    finally:
        spark.start()
    assert lost.problem is not None  # type: ignore[attr-defined]
    assert "Nothing was charged" in str(lost.problem)  # type: ignore[attr-defined]
    assert held.service().dataset("people").spent_nano == spent
    assert next(f for f in examine(held.registry, held.settings) if "data of" in f.check).ok
    # Another start of the worker.
    spender = held.spender()
    again = asked({"age": {"between": [24, 25]}})
    assert again.problem is None, again  # type: ignore[attr-defined]
