"""A checkpoint tells nothing of the data beyond what was released."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qserver.answering.checkpoint import kept
from qserver.checkpoint.folder import CheckpointFolder
from qserver.config import Settings
from qserver.query.linear import linear_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import Relation
from qserver.records.plan import PlannedTable
from tests.worker.spending import dry
from tests.worker.spending.dry import DryTown

SIZES = (12, 5)


def _released(planned: Sequence[Any], **_private: object) -> list[tuple[int, ...]]:
    """Answers that depend on the plan alone: as if each noise made up for the difference."""
    return [(7,) * (p.partition.n_cells if isinstance(p, PlannedTable) else 1) for p in planned]


def _checkpoint(folder: Path, relation: Relation, *, n_records: int, data: int) -> bytes:
    town = DryTown.make(
        SIZES, relation=relation, k=1, is_total=False, n_records=n_records, seed=data
    )
    for i in range(18):
        axes = {0: interval(12, i % 5, 6 + i % 6), 1: interval(5, 0, 1 + i % 4)}
        query = linear_query(SIZES, [(1, {a: axes[a] for a in (0, 1)[: 1 + i % 2]})])
        town.ask(Question(query, Requirement(30.0 / (1 + i), 0.95), "auto"))
    assert {type(m).__name__ for m in town.replica.measurements} == {
        "Measurement",
        "TableMeasurement",
    }
    files = CheckpointFolder(folder)
    kept(town.replica.saved, files, town.meta, Settings())
    (path,) = folder.iterdir()
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_it_has_the_same_bytes_whatever_the_records_are(
    relation: Relation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two datasets, one with twice as many records, that led to the same released answers.

    Rows, counts or noise in it would differ.
    """
    monkeypatch.setattr(dry, "draw_all", _released)
    first = _checkpoint(tmp_path / "first", relation, n_records=300, data=1)
    assert first == _checkpoint(tmp_path / "second", relation, n_records=600, data=2)


@pytest.mark.slow
def test_the_comparison_sees_what_was_released(tmp_path: Path) -> None:
    """The control: with answers of their own, the two datasets' checkpoints differ."""
    first = _checkpoint(tmp_path / "first", "add-remove", n_records=300, data=1)
    assert first != _checkpoint(tmp_path / "second", "add-remove", n_records=600, data=2)
