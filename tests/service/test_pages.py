"""Pages of history and of the audit log end where one more item would make them too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.service import history, ledger
from tests.deployment import Deployment


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Three rows of two or three runs each."""
    found = Deployment.make(tmp_path, store_url, limit="100")
    for age in (22, 24, 26):
        found.ask({"age": age})
    return found


@pytest.mark.parametrize(("most", "sizes"), [(9, [3]), (6, [2, 1]), (5, [1, 1, 1]), (1, [1, 1, 1])])
def test_a_page_of_history_has_so_many_runs_at_most(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(history, "MAX_PAGE_RUNS", most)
    service, found, after = town.service(), list[int](), -1
    while True:
        page = service.history.page("people", after=after, limit=10)
        found.append(len(page.rows))
        if page.next_after is None:
            break
        after = page.next_after
    assert found == sizes


def test_a_page_of_charges_has_so_many_characters_at_most(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = town.service().ledger
    whole = views.charges("people", after=-1, limit=10)
    lengths = [len(entry.text) for entry in whole.entries]
    for most, n in ((sum(lengths), 3), (sum(lengths) - 1, 2), (1, 1)):
        monkeypatch.setattr(ledger, "MAX_PAGE_CHARACTERS", most)
        page = views.charges("people", after=-1, limit=10)
        assert page.entries == whole.entries[:n]
        assert page.next_after == (None if n == 3 else n - 1)
