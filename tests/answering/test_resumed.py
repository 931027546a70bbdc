"""A replica that goes on from a checkpoint is the one that replayed the history."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qserver.answering.checkpoint import CheckpointFolder, Saved, found, kept
from qserver.answering.decide import Free, decide
from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.errors import QServerError
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator, interval
from qserver.records.charge import Relation
from tests.sweeps import n_of
from tests.worker.spending.dry import DryTown

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a process that goes on from a checkpoint prices, plans and answers as one that replayed,"
        " to the last bit; what came after is appended; one that is damaged, another's, of other "
        "code or ahead of the store is ignored",
    ),
]

SETTINGS = Settings()
N_ASKED = n_of(24, share=12)
KINDS: Sequence[tuple[tuple[int, ...], Relation, int, bool]] = (
    ((8, 5, 3), "add-remove", 1, False),
    ((6, 6), "replace-one", 1, True),
    ((9, 4), "replace-one", 2, False),
    # The ledger's sum is not written down, and its greatest entry is only bounded.
    ((60, 50, 40, 30, 20), "add-remove", 1, False),
)


def _query(sizes: tuple[int, ...], generator: random.Random) -> LinearQuery:
    axes = {}
    for axis in generator.sample(range(len(sizes)), generator.randint(1, min(3, len(sizes)))):
        size = sizes[axis]
        if generator.random() < 0.5:
            axes[axis] = interval(size, *sorted(generator.sample(range(size + 1), 2)))
        else:
            axes[axis] = indicator(size, generator.sample(range(size), generator.randint(1, size)))
    return linear_query(sizes, [(1, axes)])


def _asked(sizes: tuple[int, ...], generator: random.Random) -> Question | Workload:
    def question() -> Question:
        requirement = Requirement(generator.choice([4.0, 8.0, 16.0, 160.0]), 0.95)
        return Question(_query(sizes, generator), requirement, "auto")

    if generator.random() < 0.1:
        return Workload(tuple(question() for _ in range(3)))
    return question()


def _town(kind: int, *, n: int = N_ASKED, seed: int = 5) -> DryTown:
    sizes, relation, k, is_total = KINDS[kind]
    town = DryTown.make(sizes, relation=relation, k=k, is_total=is_total)
    generator = random.Random(seed)
    for _ in range(n):
        town.ask(_asked(sizes, generator))
    return town


def _read(town: DryTown, saved: Saved | None = None) -> Replica:
    replica = Replica(town.meta, SETTINGS, shown_only=False, saved=saved)
    replica.refresh(town.store)  # type: ignore[arg-type]
    return replica


def _through_a_file(town: DryTown, replica: Replica, folder: Path) -> Saved:
    """What a replica saves, written and read again."""
    files = CheckpointFolder(folder, b"key")
    kept(replica.saved, files, town.meta, SETTINGS)
    saved = found(files, town.meta, SETTINGS)
    assert saved is not None
    return saved


def _said(replica: Replica, asked: Question | Workload) -> object:
    """Everything that is decided on a question: plan with prices and weights, or the answer."""
    try:
        decided = decide(replica, asked)
    except QServerError as exc:
        return type(exc), str(exc)
    if isinstance(decided, Free):
        return decided
    return replace(decided, estimate=None) if hasattr(decided, "estimate") else decided


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_it_says_what_the_replayed_one_says_to_the_last_bit(kind: int, tmp_path: Path) -> None:
    town = _town(kind)
    replayed = _read(town)
    resumed = _read(town, _through_a_file(town, replayed, tmp_path))
    assert resumed.n_resumed == resumed.n_entries > 0
    assert resumed.measurements == replayed.measurements
    assert resumed.ledger.spent_nano == replayed.ledger.spent_nano
    assert resumed.ledger.bound_nano == replayed.ledger.bound_nano
    generator = random.Random(77)
    for _ in range(n_of(6, share=3)):
        asked = _asked(town.meta.domain.sizes, generator)
        assert _said(resumed, asked) == _said(replayed, asked)
        # The next question is asked on a longer history.
        town.ask(asked)
        for replica in (replayed, resumed):
            replica.refresh(town.store)  # type: ignore[arg-type]
        assert resumed.ledger.bound_nano == replayed.ledger.bound_nano


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_one_that_is_behind_catches_up(kind: int, tmp_path: Path) -> None:
    """What came after the checkpoint is appended; what is certain of it is the same."""
    town = _town(kind, n=N_ASKED // 3)
    saved = _through_a_file(town, _read(town), tmp_path)
    generator = random.Random(78)
    for _ in range(N_ASKED // 3):
        town.ask(_asked(town.meta.domain.sizes, generator))
    resumed, replayed = _read(town, saved), _read(town)
    assert 0 < resumed.n_resumed < resumed.n_entries
    assert resumed.n_charges == replayed.n_charges
    assert resumed.measurements == replayed.measurements
    assert resumed.ledger.spent_nano == replayed.ledger.spent_nano
    if replayed.ledger.exact:
        assert resumed.ledger.bound_nano == replayed.ledger.bound_nano


@pytest.mark.slow
def test_a_checkpoint_of_a_checkpoint_is_the_same(tmp_path: Path) -> None:
    town = _town(0)
    first = _read(town).saved
    again = _read(town, _through_a_file(town, _read(town), tmp_path)).saved
    assert first.cursor == again.cursor
    assert first.state.head["ledger"] == again.state.head["ledger"]
    for name, array in first.state.arrays.items():
        if name.startswith("ledger/"):
            assert np.array_equal(array, again.state.arrays[name])


def test_one_that_is_ahead_of_the_store_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An older copy of the store was put back: nothing of the newer checkpoint counts."""
    town = _town(0, n=5)
    saved = _through_a_file(town, _read(town), tmp_path)
    for entries in (town.store.history, town.store.charges, town.store.paid):
        removed = entries.pop()
        resumed = _read(town, saved)
        assert resumed.n_resumed == 0
        assert resumed.ledger.bound_nano == _read(town).ledger.bound_nano
        entries.append(removed)
    assert _read(town, saved).n_resumed
    assert "does not begin with what it was made from" in caplog.text


def test_one_of_another_history_is_ignored(tmp_path: Path) -> None:
    town, other = _town(0, n=5), _town(0, n=5, seed=6)
    saved = _through_a_file(town, _read(town), tmp_path)
    resumed = _read(other, saved)
    assert resumed.n_resumed == 0
    assert resumed.measurements == _read(other).measurements


def test_one_of_other_facts_settings_or_code_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    town, files = _town(0, n=5), CheckpointFolder(tmp_path)
    kept(_read(town).saved, files, town.meta, SETTINGS)
    assert found(files, replace(town.meta, phi=0.1), SETTINGS) is None
    assert found(files, town.meta, replace(SETTINGS, max_rows=7)) is None
    assert found(files, town.meta, SETTINGS) is not None
    monkeypatch.setattr("qserver.answering.checkpoint.code_version", lambda: "older")
    assert found(files, town.meta, SETTINGS) is None
    assert caplog.text.count("made by other code") == 3


def test_one_whose_parts_do_not_fit_is_ignored(tmp_path: Path) -> None:
    """Its seal is right, and its content is not: a fault of the code that wrote it."""
    town = _town(0, n=5)
    saved = _through_a_file(town, _read(town), tmp_path)
    arrays = dict(saved.state.arrays)
    arrays["ledger/cells/dense/values"] = arrays["ledger/cells/dense/values"][:-1]
    resumed = _read(town, replace(saved, state=replace(saved.state, arrays=arrays)))
    assert resumed.n_resumed == 0
    assert resumed.ledger.bound_nano == _read(town).ledger.bound_nano
