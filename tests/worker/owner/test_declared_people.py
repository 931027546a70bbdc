"""Declared pairs of people where something else goes on: refused attaches, readers, rotations."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import ConfigError
from qserver.ledger.account_ledger import ChargeEntry, OwnLedger, follow_metas
from qserver.records.charge import Standing
from qserver.records.dataset import DatasetMeta
from qserver.service.ledger import LogReader
from qserver.storage.audit_check import AuditExport, check_export
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment, write_people
from tests.worker.owner.test_populations import ask, declare, join, remaining, spent
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach, top_up
from worker.owner.restore import restore
from worker.owner.rotate import RotateRequest, rotate

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "`spent` is what the worst person can have lost over datasets, snapshots and declared "
        "pairs",
    ),
]

DAY_S = 86_400


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def exported(town: Deployment) -> AuditExport:
    return AuditExport.read(Store.open(town.settings).audit)


def is_clean(town: Deployment) -> bool:
    """Whether the audit log adds up."""
    return all(check.ok for check in check_export(exported(town)))


@pytest.mark.slow
def test_snapshots_that_never_reached_the_store_are_in_no_pair(town: Deployment) -> None:
    """The store refuses another relation once the journal has the line."""
    for _ in range(4):
        with pytest.raises(ConfigError, match="neighbours"):
            join(town, "west", relation="replace-one")
    join(town, "west")
    assert declare(town, "west", "people").n_pairs == 1
    assert is_clean(town)
    assert ask(town, "people", 40).charged_nano > 0


def test_without_a_word_of_the_owner_no_two_files_are_disjoint(town: Deployment) -> None:
    """Neither another dataset nor a rotation declares anything; with the flag each does."""
    join(town, "west")
    again(town, disjoint=False)
    journal = town.registry.journal("town", create=False)
    assert journal.state.declared == set()
    again(town, disjoint=True)
    with journal.exclusive():
        assert len(journal.state.declared) == 2


def again(town: Deployment, *, disjoint: bool) -> None:
    """Rotate `people` to another file."""
    rows = [(21 + disjoint, "Male")] * 50
    rotate(
        RotateRequest("people", write_people(town.data.with_name("b.csv"), rows), disjoint),
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
        log=LOG,
    )


def test_readers_of_the_log_go_on_after_a_declaration(town: Deployment) -> None:
    join(town, "west")
    costs = [ask(town, name, 20).charged_nano for name in ("people", "west")]
    reader = LogReader(Store.open(town.settings).audit, "town")
    with reader.refreshed() as ledger:
        assert ledger.spent_nano == sum(costs)
    declare(town, "west", "people")
    with reader.refreshed() as ledger:
        assert ledger.spent_nano == max(costs)


def test_what_was_spent_by_yesterday_falls_with_a_declaration(town: Deployment) -> None:
    """Else the pace of a day would allow the difference once more."""
    join(town, "west")
    for name in ("people", "west"):
        ask(town, name, 16)
    audit = Store.open(town.settings).audit
    metas: dict[str, DatasetMeta] = {}
    follow_metas(metas, audit.changes())
    ledger, entries = OwnLedger(metas), [ChargeEntry.of(t) for t in audit.charges("town")]
    ledger.extend(entries)
    before = ledger.spent_nano
    declare(town, "west", "people")
    follow_metas(metas, audit.changes()[-1:])
    assert ledger.spent_nano < before
    assert ledger.spent_at(entries[-1].at + DAY_S) == ledger.spent_nano


def test_a_word_is_about_the_files_of_the_moment_when_it_was_given(town: Deployment) -> None:
    """West is rotated, without a word, while the new file is read."""
    first = join(town, "west")
    other = write_people(town.settings.state_dir / "lab.csv")

    def meanwhile(text: str) -> None:
        if text.startswith("registering"):
            rotate(
                RotateRequest("west", other),
                settings=town.settings,
                registry=town.registry,
                progress=lambda _text: None,
                log=LOG,
            )

    limit, words = Fraction(1), ("west",)
    request = AttachRequest(
        "lab", other, PEOPLE, limit, "add-remove", "town", 1, disjoint_from=words
    )
    meta = attach(request, settings=town.settings, registry=town.registry, progress=meanwhile)
    assert meta.disjoint_from == (first.snapshot,)


def test_where_more_than_the_limit_was_lost_nothing_remains(
    town: Deployment, redis_client: StoreClient
) -> None:
    """West is disjoint from both, but people and lab have lost more than the limit together."""
    join(town, "lab", disjoint_from=("people",))
    join(town, "west", disjoint_from=("people", "lab"))
    for name in ("people", "lab"):
        ask(town, name, 8)
    one, other = (Store.open(town.settings).meta(n).snapshot for n in ("people", "lab"))
    redis_client.hdel(Keys("town").disjoint, f"{other} {one}", f"{one} {other}")
    assert spent(town) > 10**9
    assert remaining(town, "west") == 0


@pytest.mark.slow
def test_an_empty_store_is_brought_up_to_a_journal_with_declarations(
    town: Deployment, redis_client: StoreClient
) -> None:
    for name in ("west", "gone"):
        join(town, name)
        declare(town, name, "people")
    costs = [ask(town, name, 20).charged_nano for name in ("people", "west")]
    detach("gone", settings=town.settings, registry=town.registry, log=LOG)
    redis_client.flushall()
    bring_up(town)
    assert [remaining(town, name) for name in ("people", "west")] == [10**9 - c for c in costs]
    assert is_clean(town)
    assert ask(town, "people", 10).charged_nano > 0


def test_a_journal_of_an_earlier_version_is_given_back(
    town: Deployment, redis_client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had cohorts; its guard counted a cohort alone, and allowed what it would not now."""
    with monkeypatch.context() as earlier:
        before = {"other": 0}
        earlier.setattr(DatasetMeta, "to_json", _meta_with_cohorts)
        write = lambda s: _standing_with_cohorts(s, **before)  # noqa: E731
        earlier.setattr(Standing, "to_plain", write, raising=False)
        join(town, "guarded", disclosure_cap=0.1, disjoint_from=("people",))
        before["other"] = ask(town, "people", 16).charged_nano
        ask(town, "guarded", 40)
        top_up("town", Fraction(2), settings=town.settings, registry=town.registry)
        ask(town, "people", 12)
    redis_client.flushall()
    bring_up(town)
    failed = [c.subject for c in check_export(exported(town)) if not c.ok]
    # Until the owner says again that they are other people.
    assert failed == ["people of town"]
    declare(town, "guarded", "people")
    assert is_clean(town)


def bring_up(town: Deployment) -> None:
    done = restore(
        town.settings, registry=town.registry, accept_loss=[], log=LOG, say=lambda _text: None
    )
    assert done


def _meta_with_cohorts(meta: DatasetMeta) -> str:
    later = ("unit", "growth")
    plain = {f.name: getattr(meta, f.name) for f in fields(meta) if f.name not in later}
    del plain["disjoint_from"]
    people = {"cohort": meta.snapshot, "lineage": "l"}
    return json.dumps({**plain, **people, "domain": meta.domain_document})


def _standing_with_cohorts(standing: Standing, *, other: int) -> dict[str, int]:
    share = standing.share_nano
    return {
        "limit_nano": standing.limit_nano,
        "spent_nano": max(other, share),
        "lineage_nano": max(other, share),
        "cohort_nano": share,
        "share_nano": share,
    }
