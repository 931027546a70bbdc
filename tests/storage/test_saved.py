"""Saved questions in the store: a list that is replaced only as it was read, and sealed."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import StoreCorruptError
from qserver.storage.keys import Keys
from qserver.storage.saved_questions import SavedQuestion, SavedQuestions
from qserver.storage.server.connection import Scripts, StoreClient
from tests.deployment import Deployment

KEY = Keys("town").saved("people")


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def saved_in(client: StoreClient) -> SavedQuestions:
    return SavedQuestions(client, Scripts(client), wall_clock=lambda: 5.9)


def test_a_list_that_changed_meanwhile_is_read_again(
    town: Deployment, redis_client: StoreClient
) -> None:
    other = saved_in(redis_client)

    class Overtaken(SavedQuestions):
        """Another request comes between its reading and its writing, once."""

        n_reads = 0

        def _text(self, meta: object, account: str) -> str:
            text = super()._text(town.meta, account)
            self.n_reads += 1
            if self.n_reads == 1:
                other.keep(town.meta, "ann", fields="length=1", title="", as_of="")
            return text

    ours = Overtaken(redis_client, Scripts(redis_client))
    ours.keep(town.meta, "ann", fields="length=2", title="", as_of="")
    assert ours.n_reads == 2
    assert [q.fields for q in other.all(town.meta, "ann")] == ["length=1", "length=2"]


def test_what_is_kept_is_read_as_it_was_and_told_by_its_account(
    town: Deployment, redis_client: StoreClient
) -> None:
    saved = saved_in(redis_client)
    kept = saved.keep(town.meta, "", fields="is:sex=F\N{OHM SIGN}", title="Frauen", as_of="2024")
    assert kept == SavedQuestion(kept.id, "is:sex=F\N{OHM SIGN}", "Frauen", 5, "2024")
    assert saved.all(town.meta, "") == (kept,)
    assert saved.all(town.meta, "ann") == ()
    saved.seen(town.meta, "", {kept.id: "2025", "gone": "2025"})
    assert [q.as_of for q in saved.all(town.meta, "")] == ["2025"]


def test_a_damaged_list_is_told_as_damage(town: Deployment, redis_client: StoreClient) -> None:
    saved = saved_in(redis_client)
    saved.keep(town.meta, "ann", fields="length=1", title="", as_of="")
    text = str(redis_client.hget(KEY, "of:ann"))
    redis_client.hset(KEY, "of:ann", text.replace("length=1", "length=2"))
    with pytest.raises(StoreCorruptError):
        saved.all(town.meta, "ann")
    # Nobody else's list can stand in its place.
    redis_client.hset(KEY, "of:bob", text)
    with pytest.raises(StoreCorruptError):
        saved.all(town.meta, "bob")
