"""The books look at many branches in one go: they find what they find branch by branch."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.worker.books.campaign import play
from worker.books import losses
from worker.books.losses import Search

Seen = list[tuple[str, Fraction | None, int]]


def searched(monkeypatch: pytest.MonkeyPatch, path: Path, *, seed: int, together: int) -> Seen:
    """Each search of a random history: of cells or pairs, what it found, and its work."""
    seen, above = Seen(), Search.above

    def noted(self: Any) -> Fraction | None:
        found = above(self)
        # Without a level, the work depends on which branch lifts it first.
        work = self._work if self._level >= 0 else 0
        seen.append(("pairs" if self._pairs else "cells", found, work))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(losses, "_TOGETHER", together)
        patch.setattr(Search, "above", noted)
        play(seed, path)
    return seen


@pytest.mark.parametrize("seed", range(100, 112))
def test_what_is_found_does_not_depend_on_how_many_are_looked_at_together(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same losses, and where none is above the level the same work, so the same verdicts."""
    alone = searched(monkeypatch, tmp_path / "alone", seed=seed, together=1)
    for together in (2, 64):
        path = tmp_path / f"{together}"
        assert searched(monkeypatch, path, seed=seed, together=together) == alone


def test_the_histories_look_at_cells_and_at_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {
        kind
        for seed in range(100, 112)
        for kind, _, work in searched(monkeypatch, tmp_path / str(seed), seed=seed, together=64)
        if work
    }
    assert kinds == {"cells", "pairs"}
