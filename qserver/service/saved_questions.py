"""Questions that an account keeps to see their answers again. Nothing here spends."""

from __future__ import annotations

from collections.abc import Mapping

from qserver.service.datasets import OpenDatasets
from qserver.storage.saved_questions import SavedQuestion
from qserver.storage.store import Store

__all__ = ["SavedQuestion", "SavedViews"]


class SavedViews:
    """The saved questions of accounts, by dataset; each method raises NotFoundError for none."""

    def __init__(self, store: Store, datasets: OpenDatasets) -> None:
        self._store = store
        self._datasets = datasets

    def all(self, name: str, account: str) -> tuple[SavedQuestion, ...]:
        """What an account keeps of a dataset, the oldest first."""
        return self._store.saved.all(self._datasets.meta(name), account)

    def one(self, name: str, account: str, number: str) -> SavedQuestion | None:
        """One of them, or None."""
        return next((q for q in self.all(name, account) if q.id == number), None)

    def keep(
        self, name: str, account: str, *, fields: str, title: str, as_of: str
    ) -> SavedQuestion:
        """Keep a question; raises as `SavedQuestions.keep` does."""
        meta = self._datasets.meta(name)
        return self._store.saved.keep(meta, account, fields=fields, title=title, as_of=as_of)

    def remove(self, name: str, account: str, number: str) -> None:
        """Forget a question; NotFoundError."""
        self._store.saved.remove(self._datasets.meta(name), account, number)

    def seen(self, name: str, account: str, as_of: Mapping[str, str]) -> None:
        """Note up to which period the answers of some questions were seen whole, by id."""
        self._store.saved.seen(self._datasets.meta(name), account, as_of)
