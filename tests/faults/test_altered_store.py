"""A store of one's own is altered key by key: each reply is as before, refused, or brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.storage.server.connection import StoreClient
from tests.deployment import LOG, Deployment
from tests.faults.alterations import Alteration, Dump, alterations
from tests.faults.flips import Site, brought_back, replies_of, site_of
from tests.sweeps import n_of, share, share_of_each
from worker.owner.restore import restore

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a byte changed in any kind of key of a store alters no reply: it is refused, and "
        "`restore` brings back what the journal has, ledger, facts, charges, jobs and models "
        "included",
    ),
]

IN_NO_JOURNAL = {"qs:accounts", "qs:tokens", "allowances"}
"""These come back from a backup alone; so does the audit log's end after the last charge."""
CHECKED = ("ledger", "charges", "reservations", "paid", "dataset", "job", "models", "estimators")


@pytest.fixture
def site(tmp_path: Path, store_url: str) -> Site:
    return site_of(Deployment.make(tmp_path, store_url))


def altered(site: Site, now: dict[str, str]) -> dict[str, str]:
    """The replies that are neither as before, nor a refusal, nor "there is none"."""
    refusals = ("503", "404")
    return {
        path: reply
        for path, reply in now.items()
        if reply != site.replies[path] and not reply.startswith(refusals)
    }


@pytest.mark.slow
def test_no_changed_byte_alters_a_reply_and_restore_mends_what_the_journal_has(
    site: Site, redis_client: StoreClient
) -> None:
    """Figures of the ledger too, which earlier versions kept without seals."""
    whole, n_refused = Dump.of(redis_client), 0
    for one in share((a for a in alterations(redis_client) if a.how == "a byte"), 16):
        one.make(redis_client)
        now = replies_of(site, site.town)
        assert altered(site, now) == {}, one
        if now != site.replies:
            n_refused += 1
            assert brought_back(site, site.town) or one.part in IN_NO_JOURNAL | {"qs:audit"}, one
        whole.put_back(redis_client)
    assert n_refused > n_of(10, share=6)


@pytest.mark.slow
def test_what_went_is_told_or_brought_back(site: Site, redis_client: StoreClient) -> None:
    """Lists get shorter when a whole entry goes; then restore brings it back."""
    whole, seen = Dump.of(redis_client), set[str]()
    gone = (a for a in alterations(redis_client) if a.how == "gone")
    for one in share_of_each(gone, 1, kind=lambda a: a.part):
        one.make(redis_client)
        seen.add(one.part)
        if replies_of(site, site.town) != site.replies and not _needs_backup(one):
            assert brought_back(site, site.town), one
        whole.put_back(redis_client)
    assert set(CHECKED) <= seen


def _needs_backup(one: Alteration) -> bool:
    return one.part in IN_NO_JOURNAL or one.part == "qs:audit"


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["limit", "spent", "version", "spent:{}", "shown:{}"])
def test_a_figure_of_the_ledger_that_was_changed_is_refused_by_every_route(
    site: Site, redis_client: StoreClient, figure: str
) -> None:
    """Whatever shows it, decides by it, or says that all is well."""
    name = figure.format(site.town.meta.snapshot)
    redis_client.hincrby("qs:{town}:ledger", name, 1)
    now = replies_of(site, site.town)
    refused = {path for path, reply in now.items() if reply.startswith("503")}
    assert {"/readyz", "/v1/datasets/people", "/v1/datasets/people/ledger", "question 0"} <= refused
    assert altered(site, now) == {}


@pytest.mark.slow
def test_restore_tells_what_was_changed_and_not_to_run_it_again(
    site: Site, redis_client: StoreClient
) -> None:
    redis_client.hincrby("qs:{town}:ledger", "limit", 1)
    said: list[str] = []
    town = site.town
    restore(town.settings, registry=town.registry, accept_loss=(), log=LOG, say=said.append)
    assert "not the journal's: The ledger's figure 'limit' was changed. The store" in said[0]
