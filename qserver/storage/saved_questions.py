"""Saved questions in the store: a short list for each account and dataset, replaced as a whole.

They are what accounts keep for themselves: no part of what was released, and they spend nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from qserver.errors import BusyError, CapacityError, InputError, NotFoundError
from qserver.records.dataset import DatasetMeta
from qserver.storage.constants import STORE
from qserver.storage.encoding.digests import reading, sealed, unsealed
from qserver.storage.keys import Keys
from qserver.storage.server.connection import Scripts, StoreClient

_ID_DIGITS = 16
_TRIES = 20


@dataclass(frozen=True)
class SavedQuestion:
    """A question that an account saved.

    Args:
        id: follows from the question, so that none is kept twice.
        fields: the question as the query part of a page's address.
        title: what the account calls it; '' for nothing.
        at: Unix time of saving, in whole seconds.
        as_of: where data arrive over time, the last period that its answer counted when it was
            last seen whole; '' for none.
    """

    id: str
    fields: str
    title: str
    at: int
    as_of: str = ""


_List = tuple[SavedQuestion, ...]


class SavedQuestions:
    """The saved questions of all accounts. Thread-safe as its client is.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self, client: StoreClient, scripts: Scripts, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._scripts = scripts
        self._wall_clock = wall_clock

    def all(self, meta: DatasetMeta, account: str) -> _List:
        """The account's saved questions of a dataset, oldest first."""
        return _read(self._text(meta, account), account)

    def keep(
        self, meta: DatasetMeta, account: str, *, fields: str, title: str, as_of: str
    ) -> SavedQuestion:
        """Save a question; a saved one gets the new title.

        Raises:
            InputError: the question or its title is too long.
            CapacityError: the account keeps as many as it may.
        """
        if len(title) > STORE.saved_title:
            raise InputError("title", f"have at most {STORE.saved_title} characters", title)
        if len(fields) > STORE.saved_length:
            raise InputError(
                "question", f"have at most {STORE.saved_length:,} characters to be saved"
            )
        digest = hashlib.sha256(fields.encode("utf-8", "surrogatepass")).hexdigest()
        new = SavedQuestion(digest[:_ID_DIGITS], fields, title, int(self._wall_clock()), as_of)

        def change(kept: _List) -> _List:
            others = tuple(one for one in kept if one.id != new.id)
            if len(others) >= STORE.saved_questions:
                raise CapacityError(
                    f"You keep {len(others)} questions of this dataset, the most there can be. "
                    "Remove one first."
                )
            return (*others, new)

        self._change(meta, account, change)
        return new

    def remove(self, meta: DatasetMeta, account: str, number: str) -> None:
        """Forget a question; NotFoundError."""

        def change(kept: _List) -> _List:
            rest = tuple(one for one in kept if one.id != number)
            if len(rest) == len(kept):
                raise NotFoundError("saved question", number[:80])
            return rest

        self._change(meta, account, change)

    def seen(self, meta: DatasetMeta, account: str, as_of: Mapping[str, str]) -> None:
        """Note the period up to which some questions' answers were seen whole, by id."""
        self._change(
            meta,
            account,
            lambda kept: tuple(replace(q, as_of=as_of.get(q.id, q.as_of)) for q in kept),
        )

    def _text(self, meta: DatasetMeta, account: str) -> str:
        text: Any = self._client.hget(Keys(meta.population).saved(meta.name), _field(account))
        return str(text or "")

    def _change(self, meta: DatasetMeta, account: str, change: Callable[[_List], _List]) -> None:
        """Replace an account's list; tries again if another request changed it meanwhile."""
        for _ in range(_TRIES):
            text = self._text(meta, account)
            before = _read(text, account)
            after = change(before)
            if after == before:
                return
            keys = [Keys(meta.population).saved(meta.name)]
            plain = json.dumps([asdict(one) for one in after])
            args = [_field(account), text, sealed(plain, name=_field(account))]
            (code,) = self._scripts.run("save", keys=keys, args=args)
            if code == 1:
                return
        raise BusyError("Your saved questions change too often. Try again.")


def _field(account: str) -> str:
    # No account has the name '', which open servers have.
    return f"of:{account}"


@reading("saved questions")
def _read(text: str, account: str) -> _List:
    if not text:
        return ()
    plain = json.loads(unsealed(text, name=_field(account)))
    return tuple(SavedQuestion(**one) for one in plain)
