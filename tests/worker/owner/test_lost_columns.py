"""A column of which nearly all is lost is refused before anything is registered or sealed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.query.domain_file import domain_from_document
from tests.deployment import LOG, Deployment, write_people
from tests.growing import Growing, Row, week
from tests.worker.private.reading import KEY
from worker.cli import main
from worker.coding.tally import LostColumnError
from worker.owner.arrivals.sealing import AppendRequest, append
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry
from worker.private.snapshot import Snapshot, read_snapshot

Out = pytest.CaptureFixture[str]
REAL = {"kind": "real", "range": [0, 10], "outside": "other", "missing": "other", "other": "none"}
LOST: dict[str, tuple[pa.Array, dict[str, Any], str]] = {
    "decimal commas": (pa.array(["1,5", "2,5"]), REAL, "100.0 % missing"),
    "arrays": (pa.array([[1], [2]]), {"labels": [1, 2]}, "100.0 % outside"),
    "json": (pa.array(['{"a": 1}', "{}"]), {"labels": ["a"], "outside": "other"}, "outside"),
    "beyond the range": (pa.array([11, 12]), {**REAL, "outside": "clamp"}, "outside"),
}


def read(folder: Path, cells: pa.Array, item: dict[str, Any], *, as_it_is: bool) -> Snapshot:
    pq.write_table(pa.table({"a": cells}), folder / "rows.parquet")
    domain = domain_from_document({"attributes": [{"name": "a", **item}]})
    return read_snapshot(folder / "rows.parquet", domain, key=KEY, folder=folder, as_it_is=as_it_is)


@pytest.mark.parametrize("name", LOST)
def test_a_column_that_is_lost_is_refused(tmp_path: Path, name: str) -> None:
    cells, item, told = LOST[name]
    with pytest.raises(LostColumnError, match=rf"a \({told}|a \(.*{told}") as refused:
        read(tmp_path, cells, item, as_it_is=False)
    assert "--as-it-is" in str(refused.value)
    assert read(tmp_path, cells, item, as_it_is=True).n_records in (0, 2)


@pytest.mark.parametrize(("n_lost", "is_refused"), [(95, False), (96, True)])
def test_above_95_of_a_hundred_is_too_much(tmp_path: Path, n_lost: int, is_refused: bool) -> None:
    """Missing and outside together; a rare thing may be rare."""
    cells = pa.array(["x"] * (100 - n_lost) + [None] * 50 + ["y"] * (n_lost - 50))
    item = {"labels": ["x"], "outside": "other"}
    if is_refused:
        with pytest.raises(LostColumnError, match=r"50\.0 % missing, 46\.0 % outside"):
            read(tmp_path, cells, item, as_it_is=False)
    else:
        assert read(tmp_path, cells, item, as_it_is=False).n_records == 100


def test_attach_registers_nothing_of_a_lost_column_unless_told(
    tmp_path: Path, store_url: str, capsys: Out
) -> None:
    """Only the terminal of the owner says it."""
    (tmp_path / "rows.csv").write_text('a,n\nx,"1,5"\ny,"2,5"\n')
    items = [{"name": "a", "labels": ["x", "y"]}, {"name": "n", **REAL}]
    (tmp_path / "domain.json").write_text(json.dumps({"attributes": items}))
    state = tmp_path / "state"
    call = ["attach", "visits", "--data", str(tmp_path / "rows.csv"), "--limit", "1"]
    call += ["--domain", str(tmp_path / "domain.json")]
    call += ["--records-per-person", "1", "--state", str(state), "--redis-url", store_url]
    assert main(call) == 1
    said = capsys.readouterr()
    assert "n (100.0 % missing). Nothing was registered" in said.err
    assert said.out == ""
    assert Registry(state).entries() == {}
    assert main([*call, "--as-it-is"]) == 0
    assert Registry(state).entry("visits").as_it_is
    items[1]["decimal"] = ","
    (tmp_path / "domain.json").write_text(json.dumps({"attributes": items}))
    call[1] = "again"
    capsys.readouterr()
    assert main([*call, "--population", "visits"]) == 0
    assert "n:" not in capsys.readouterr().err


def nobody_said(i: int) -> list[Row]:
    return [(week(i), "", f"p{j}") for j in range(10)]


def test_an_append_of_a_lost_column_seals_nothing_unless_told(
    tmp_path: Path, store_url: str
) -> None:
    """What was said at attach holds for appends, so that a rare thing stops none of them."""
    town = Growing.begin(tmp_path, store_url, n_first=1, as_it_is=False)
    with pytest.raises(LostColumnError, match=r"sex .*itself tell something about them"):
        town.append(1, nobody_said(1))
    request = AppendRequest("people", tmp_path / "next.csv", week(1), as_it_is=True)
    done = append(
        request,
        settings=town.settings,
        registry=Registry(tmp_path),
        progress=print,
        log=LOG,
        pause=lambda _seconds: None,
    )
    assert done.sealed == 2


def test_a_rotation_to_a_lost_column_replaces_nothing_unless_told(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, as_it_is=False)
    data = write_people(tmp_path / "new.csv", [(999, "Male")] * 5)
    with pytest.raises(LostColumnError, match=r"age .*Nothing was registered"):
        rotated(town, RotateRequest("people", data))
    assert town.registry.entry("people").snapshot == town.meta.snapshot
    rotated(town, RotateRequest("people", data, as_it_is=True))
    assert town.registry.entry("people").snapshot != town.meta.snapshot


def rotated(town: Deployment, request: RotateRequest) -> None:
    rotate(request, settings=town.settings, registry=town.registry, progress=print, log=LOG)
