"""A person has the same records left, whatever type the column of persons has this week."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.deployment import LOG
from tests.growing import WEEKS, Growing, Row, week
from tests.worker.private.reading import snapshot_of
from worker.coding import coder
from worker.owner.arrivals.sealing import Appended, AppendRequest, append
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry
from worker.private.truncation import PersonRule

N = 40
KINDS: dict[str, pa.Array] = {
    "int32": pa.array(range(N), pa.int32()),
    "double": pa.array([float(i) for i in range(N)]),
    "numeric": pa.array([Decimal(i) for i in range(N)], pa.decimal128(9, 2)),
    "text": pa.array([f"{i}" for i in range(N)]),
    "text of doubles": pa.array([f"{i}.0" for i in range(N)]),
}


def one_each(i: int, ids: list[str]) -> list[Row]:
    return [(week(i), "Male", one) for one in ids]


def appended(town: Growing, i: int, ids: pa.Array, say: Callable[[str], None]) -> Appended:
    path = town.settings.state_dir / f"{i}.parquet"
    columns: dict[str, Any] = {"week": [week(i)] * len(ids), "sex": ["Male"] * len(ids)}
    pq.write_table(pa.table({**columns, "who": ids}), path)
    return append(
        AppendRequest("people", path, week(i), late="drop"),
        settings=town.settings,
        registry=Registry(town.settings.state_dir),
        progress=say,
        log=LOG,
        pause=lambda _seconds: None,
    )


def begun(folder: Path, store_url: str, ids: list[str], *, k: int = 1) -> Growing:
    """A dataset whose first week names these persons in a CSV file."""
    return Growing.begin(folder, store_url, n_first=1, rows=one_each(0, ids), k=k)


def test_a_person_keeps_k_records_in_weeks_of_every_type(tmp_path: Path, store_url: str) -> None:
    """K is 2, so of every person one later week is kept."""
    said: list[str] = []
    town = begun(tmp_path, store_url, [f"{i}.0" for i in range(N)], k=2)
    weeks = [KINDS["int32"], KINDS["double"], KINDS["numeric"]]
    kept = [N - appended(town, i, ids, said.append).n_dropped for i, ids in enumerate(weeks, 1)]
    assert kept == [N, 0, 0]


def test_the_owner_is_warned_of_another_type_of_person(tmp_path: Path, store_url: str) -> None:
    said: list[str] = []
    town = begun(tmp_path, store_url, ["1", "2"], k=9)
    appended(town, 1, pa.array(["1", "2"]), said.append)
    assert not [line for line in said if "WARNING: the column of persons" in line]
    appended(town, 2, pa.array([1.0, 2.0]), said.append)
    (line,) = [line for line in said if "WARNING: the column of persons" in line]
    assert "holds binary numbers here, and texts in what is sealed" in line


def test_a_rotation_warns_of_another_type_of_person(tmp_path: Path, store_url: str) -> None:
    said: list[str] = []
    town = begun(tmp_path, store_url, ["1", "2"])
    path = tmp_path / "new.parquet"
    pq.write_table(pa.table({"week": [week(0)] * 2, "sex": ["Male"] * 2, "who": [1, 2]}), path)
    rotate(
        RotateRequest("people", path, correct=True),
        settings=town.settings,
        registry=Registry(tmp_path),
        progress=said.append,
        log=LOG,
        pause=lambda _seconds: None,
    )
    assert any("holds whole numbers here, and texts in what is sealed" in line for line in said)
    assert Registry(tmp_path).entry("people").person_type == "whole numbers"


@pytest.mark.parametrize(("before", "now"), [("double", "int32"), ("int32", "double")])
def test_what_an_earlier_version_sealed_of_a_person_counts(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch, before: str, now: str
) -> None:
    """It called the person of a double 17.0, and wrote down no type."""
    town = Growing.begin(tmp_path, store_url, n_first=1, rows=[(week(0), "Male", "")], k=1)
    with monkeypatch.context() as earlier:
        earlier.setattr(
            coder, "name_sql", lambda column, _kind, **_: f"trim(CAST({column} AS VARCHAR))"
        )
        earlier.setattr(coder, "whole_sql", lambda text: text)
        assert appended(town, 1, KINDS[before], print).n_dropped == 0
    entry = town.registry.entry("people")
    assert entry.person_type == "texts"
    town.registry.put(replace(entry, person_type=None))
    assert appended(town, 2, KINDS[now], print).n_dropped == N


def test_a_folder_of_csv_files_has_one_person_in_both_notations(tmp_path: Path) -> None:
    """One file of a program whose column had a gap, and one of a program whose had none."""
    folder = tmp_path / "weeks"
    folder.mkdir()
    for i, end in enumerate(("", ".0")):
        rows = [f"{week(i)},Male,{p}{end}\n" for p in range(N)]
        (folder / f"{i}.csv").write_text("week,sex,who\n" + "".join(rows))
    rule = PersonRule("who", 1)
    assert snapshot_of(folder, WEEKS, folder=tmp_path, person=rule).n_records == N
