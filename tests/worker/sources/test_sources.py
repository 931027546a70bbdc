"""The same records have the same codes and fingerprint wherever they lie."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.domain import Attribute, Domain
from tests.worker.codes import codes_of
from tests.worker.private.reading import snapshot_of
from tests.worker.sources.tables import (
    DOMAIN,
    as_csv,
    as_csv_folder,
    as_duckdb,
    as_folder,
    as_parquet,
    as_sqlite,
    random_rows,
)
from worker.private.truncation import PeriodRule, PersonRule
from worker.sources.address import Address

PERSON = PersonRule("person", 4, PeriodRule(3, 2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_all_kinds_give_one_fingerprint(tmp_path: Path, seed: int) -> None:
    rows = random_rows(seed, 30 + 40 * seed)
    packed = tmp_path / "rows.tsv.gz"
    as_csv(tmp_path / "rows.tsv", rows, mark="\t")
    packed.write_bytes(gzip.compress((tmp_path / "rows.tsv").read_bytes()))
    kinds = [
        as_csv(tmp_path / "rows.csv", rows),
        Address(str(packed)),
        as_parquet(tmp_path / "rows.parquet", rows),
        as_folder(tmp_path / "folder", rows),
        as_csv_folder(tmp_path / "texts", rows),
        as_sqlite(tmp_path / "rows.sqlite", rows),
        as_duckdb(tmp_path / "rows.duckdb", rows),
    ]
    for person in (None, PERSON):
        found = [snapshot_of(a, DOMAIN, folder=tmp_path, person=person) for a in kinds]
        assert len({s.fingerprint for s in found}) == 1
        assert len({s.content.records for s in found}) == 1
        assert len(codes_of(found[0])[0]) > 0


def test_a_query_may_rename_join_and_choose(tmp_path: Path) -> None:
    rows = random_rows(1, 50)
    as_sqlite(tmp_path / "rows.sqlite", rows)
    as_duckdb(tmp_path / "rows.duckdb", rows)
    sql = (
        'WITH v AS (SELECT * FROM visits) SELECT v.age, v.sex AS "sex", v.dose, v.day, '
        "v.insured FROM v WHERE v.sex = 'Male'; "
    )
    whole = [r for r in rows if r[1] == "Male"]
    expected = snapshot_of(as_csv(tmp_path / "men.csv", whole), DOMAIN, folder=tmp_path)
    for kind in ("sqlite", "duckdb"):
        address = Address(f"{kind}:///{tmp_path}/rows.{kind}", query=sql)
        found = snapshot_of(address, DOMAIN, folder=tmp_path)
        assert found.fingerprint == expected.fingerprint


def test_folders_named_by_a_value_give_a_column(tmp_path: Path) -> None:
    """As other programs write Parquet by day or by region."""
    rows = [r for r in random_rows(2, 200) if r[1] in ("Female", "Male")]
    for sex in ("Female", "Male"):
        (tmp_path / "by" / f"sex={sex}").mkdir(parents=True)
        source = as_duckdb(tmp_path / f"{sex}.duckdb", [r for r in rows if r[1] == sex])
        with duckdb.connect(str(source.path)) as connection:
            target = tmp_path / "by" / f"sex={sex}" / "x.parquet"
            connection.execute(f"COPY (SELECT * EXCLUDE sex FROM visits) TO '{target}'")
    found = snapshot_of(tmp_path / "by", DOMAIN, folder=tmp_path)
    expected = snapshot_of(as_csv(tmp_path / "rows.csv", rows), DOMAIN, folder=tmp_path)
    assert found.fingerprint == expected.fingerprint


def test_folders_of_csv_are_read_as_those_of_parquet(tmp_path: Path) -> None:
    """By month and sex; a month is a whole number, and a sex without a value is missing."""
    domain = Domain(
        (
            Attribute("age", "integer", edges=(Fraction(0), Fraction(50), Fraction(100))),
            Attribute("month", "labels", ("3", "11")),
            Attribute("sex", "labels", ("Fe male", "Male"), missing="other"),
        )
    )
    places = [("03", "Fe%20male"), ("11", "Male"), ("11", "__HIVE_DEFAULT_PARTITION__")]
    for i, (month, sex) in enumerate(places):
        for kind in ("csv", "parquet"):
            below = tmp_path / kind / f"month={month}" / f"sex={sex}"
            below.mkdir(parents=True)
            with duckdb.connect(":memory:") as connection:
                rows = f"SELECT j * 7 + {i} AS age FROM range({i + 2}) t(j)"
                connection.execute(f"COPY ({rows}) TO '{below / f'x.{kind}'}'")
    found = [snapshot_of(tmp_path / kind, domain, folder=tmp_path) for kind in ("csv", "parquet")]
    assert found[0].fingerprint == found[1].fingerprint
    columns = [codes.tolist() for codes in codes_of(found[0])]
    assert list(zip(*columns, strict=True)) == [(0, 0, 0)] * 2 + [(0, 1, 1)] * 3 + [(0, 1, 2)] * 4


@pytest.mark.parametrize(
    ("text", "more", "named"),
    [
        ("", {}, "source"),
        ("ftp://host/file.csv", {}, "source"),
        ("sqlite:///x.db", {}, "source"),
        ("sqlite:///x.db", {"table": "t", "query": "SELECT 1"}, "source"),
        ("sqlite:x.db", {"table": "t"}, "source"),
        ("rows.csv", {"table": "t"}, "table"),
        ("s3://bucket/key", {"query": "SELECT 1"}, "table"),
        ("postgresql://me:hunter2@host/db", {"table": "t"}, "source"),
        ("postgresql://host/db?password=hunter2", {"table": "t"}, "source"),
        ("s3://KEY:hunter2@bucket/key", {}, "source"),
        ("adbc:flightsql", {"table": "t", "options": ("password=hunter2",)}, "option"),
        ("adbc:flightsql", {"table": "t", "options": ("noequals",)}, "option"),
        ("rows.csv", {"options": ("a=b",)}, "option"),
    ],
)
def test_a_wrong_address_names_its_field_and_repeats_no_secret(
    tmp_path: Path, text: str, more: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=f"`{named}`") as caught:
        snapshot_of(Address(text, **more), DOMAIN, folder=tmp_path)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("table", ["", "a..b", '"a', "a."])
def test_a_table_must_be_a_name(tmp_path: Path, table: str) -> None:
    as_sqlite(tmp_path / "rows.sqlite", random_rows(1, 5))
    with pytest.raises(ConfigError):
        snapshot_of(
            Address(f"sqlite:///{tmp_path}/rows.sqlite", table=table), DOMAIN, folder=tmp_path
        )


def test_a_table_may_have_an_odd_name(tmp_path: Path) -> None:
    as_sqlite(tmp_path / "rows.sqlite", random_rows(1, 5))
    connection = sqlite3.connect(tmp_path / "rows.sqlite")
    connection.execute('ALTER TABLE visits RENAME TO "odd.name ""x"""')
    connection.close()
    address = Address(f"sqlite:///{tmp_path}/rows.sqlite", table='main."odd.name ""x"""')
    assert snapshot_of(address, DOMAIN, folder=tmp_path).fingerprint


def test_a_path_with_a_colon_is_a_path(tmp_path: Path) -> None:
    found = as_csv(tmp_path / "a:b.csv", random_rows(1, 9))
    assert found.kind == "path"
    shutil.copy(tmp_path / "a:b.csv", tmp_path / "plain.csv")
    one = snapshot_of(found, DOMAIN, folder=tmp_path)
    other = snapshot_of(tmp_path / "plain.csv", DOMAIN, folder=tmp_path)
    assert one.fingerprint == other.fingerprint


def test_a_missing_secret_is_named_and_no_driver_says_how_to_get_one(tmp_path: Path) -> None:
    address = Address("postgresql://me:{env:QSERVER_NOT_SET}@localhost/db", table="t")
    with pytest.raises(ConfigError, match="QSERVER_NOT_SET"):
        snapshot_of(address, DOMAIN, folder=tmp_path)
    address = Address(f"postgresql://me:{{file:{tmp_path}/none}}@localhost/db", table="t")
    with pytest.raises(ConfigError, match="readable file with the secret"):
        snapshot_of(address, DOMAIN, folder=tmp_path)
    with pytest.raises((ConfigError, PrivateDataError)):
        snapshot_of(Address("adbc:nosuchdriver", table="t"), DOMAIN, folder=tmp_path)


def test_a_path_of_a_database_is_relative_or_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.db").touch()
    monkeypatch.chdir(tmp_path)
    for text in ("sqlite:///a.db", f"sqlite:///{tmp_path}/a.db", f"sqlite://{tmp_path}/a.db"):
        assert Address(text, table="t").path.samefile(tmp_path / "a.db")
    assert str(Address("sqlite:///none.db", table="t").path) == "none.db"
    assert str(Address("sqlite:////none.db", table="t").path) == "/none.db"
    assert str(Address("duckdb:///a%20b.db", table="t").path) == "a b.db"
