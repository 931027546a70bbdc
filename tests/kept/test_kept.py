"""Store and journal of each released version are read by this one: same numbers, and it goes on."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import qserver
from qserver.config import Settings
from qserver.storage.accounts import AccountBook
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from tests.kept.making import NEW, answers
from worker.owner.backups import PutBack, put_back
from worker.owner.checks.audit import examine
from worker.private.registry import Registry

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "store, journal and data that an earlier version wrote are read: same answers, same"
        " spending, books that agree, and questions go on",
    ),
]

HERE = Path(__file__).parent
KEPT = sorted(HERE.glob("*/*.tar.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("packed", KEPT, ids=lambda path: f"{path.parent.name}-{path.name[:5]}")
def test_what_an_earlier_version_wrote_is_read_and_goes_on(packed: Path, tmp_path: Path) -> None:
    name = packed.name.removesuffix(".tar.gz")
    facts = json.loads((packed.parent / f"{name}.json").read_text())
    (tmp_path / "file").write_bytes(gzip.decompress(packed.read_bytes()))
    state = tmp_path / "state"
    settings = Settings(redis_url="", state_dir=state, slot_ms=0, open_access=True)
    request = PutBack(tmp_path / "file", nothing_since=("town",))
    # It is refused unless the books agree.
    assert put_back(request, settings=settings, witness=None, log=LOG, say=lambda _text: None)
    with EmbeddedServer.start(state) as server:
        at = restored_at(settings, server.url)
        status = at.service().dataset("people")
        assert status.spent_nano == facts["spent"]
        for found, expected in zip(answers(at, name), facts["answers"], strict=True):
            assert found == pytest.approx(expected, rel=1e-9)
        assert at.service().dataset("people").spent_nano == facts["spent"]
        where, length = NEW[name]
        assert at.ask(where, length=length).charged_nano > 0
        findings = examine(at.registry, at.settings)
        passing = ("BLAS threads", "slot of people")
        assert [one for one in findings if not one.ok and one.check not in passing] == []
        if name == "town":
            _check_the_rest(at)


def restored_at(settings: Settings, url: str) -> Deployment:
    """The restored deployment, with a worker that counts as alive."""
    settings, registry = replace(settings, redis_url=url), Registry(settings.state_dir)
    at = Deployment(settings, registry, Store.open(settings).meta("people"), Path())
    at.writer().queue.beat(["town"], worker="test", ttl_ms=600_000)
    return at


def _check_the_rest(at: Deployment) -> None:
    book = AccountBook.open(at.settings, role="owner")
    assert [(one.name, one.role) for one in book.accounts()] == [
        ("ada", "analyst"),
        ("olga", "owner"),
    ]
    assert book.allowance("ada", "town").limit_nano == 3 * 10**9
    assert {one.name for one in at.service().datasets()} == {"people", "other"}


def test_this_versions_lines_of_all_kinds_are_kept() -> None:
    kinds = set[str]()
    for packed in KEPT:
        if packed.parent.name == qserver.__version__:
            text = gzip.decompress(packed.read_bytes())
            kinds |= {kind.decode() for kind in re.findall(rb'"kind":"([a-z-]+)"', text)}
    lines = {"opened", "attached", "reserved", "released", "burnt", "sealed", "retired"}
    words = {"limit-raised", "declared-disjoint", "measure-set", "claims-set"}
    assert lines | words <= kinds
