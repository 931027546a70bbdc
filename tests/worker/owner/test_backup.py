"""One file brings store, journal and data back as of one moment; what followed is not forgotten."""

from __future__ import annotations

import os
import signal
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import ClosedError, ConfigError, JournalError, StoreCorruptError
from qserver.storage.keys import Keys
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import LOG, Deployment
from worker.journal.records import Reserved
from worker.journal.witness import WitnessSettings
from worker.owner import backups
from worker.owner.backups import Note, PutBack, back_up, put_back, read_note
from worker.owner.checks.audit import audit, examine
from worker.owner.witness import see_to_witnesses
from worker.private.registry import Registry

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Operations",
        "a backup is store, journal and data of one moment, and is refused once changed",
    ),
    pytest.mark.promise(
        "Privacy",
        "a restored backup draws nothing until a witness or the owner's word says that nothing was"
        " charged since",
    ),
]

YOUNG = {"age": {"below": 25}}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Deployment]:
    """A town on an embedded store, with a witness on another disk."""
    (tmp_path / "other").mkdir()
    with EmbeddedServer.start(tmp_path / "state") as server:
        witness = WitnessSettings(tmp_path / "other", required=True)
        yield Deployment.make(tmp_path / "state", server.url, witness=witness)


def backed_up(town: Deployment, target: Path, *, with_data: bool = True) -> Note:
    settings = replace(town.settings, redis_url="")
    return back_up(
        target,
        settings=settings,
        registry=town.registry,
        with_data=with_data,
        say=lambda text: pytest.fail(text),
    )


def restored(
    town: Deployment,
    request: PutBack,
    state: Path,
    *,
    witness: WitnessSettings | None = None,
    said: list[str] | None = None,
) -> bool:
    settings = replace(town.settings, redis_url="", state_dir=state)
    lines: list[str] = [] if said is None else said
    return put_back(request, settings=settings, witness=witness, log=LOG, say=lines.append)


@contextmanager
def served(
    town: Deployment, state: Path, witness: WitnessSettings | None = None
) -> Iterator[Deployment]:
    """The restored town."""
    with EmbeddedServer.start(state) as server:
        settings = replace(town.settings, redis_url=server.url, state_dir=state)
        back = Deployment(settings, Registry(state, witness=witness), town.meta, town.data)
        back.writer().queue.beat(["town"], worker="test", ttl_ms=600_000)
        yield back
        assert [
            f for f in examine(back.registry, settings) if not f.ok and "BLAS" not in f.check
        ] == []
        assert [c for c in audit(back.registry, settings) if not c.ok] == []


def spent(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def n_charged(town: Deployment) -> int:
    with town.registry.journal("town", create=False).exclusive() as journal:
        return sum(isinstance(record, Reserved) for record in journal.records())


def n_drawn(state: Path) -> int:
    """Spends whose answers are in the journal."""
    return (state / "worker/journals/town.journal").read_bytes().count(b'"kind":"released"')


def test_nothing_since_by_the_witness_goes_on_with_the_same_answers(
    running: Deployment, tmp_path: Path
) -> None:
    witness = WitnessSettings(tmp_path / "other", required=True)
    first, second = running.ask({"age": 20}), running.ask(YOUNG, length=80)
    backed_up(running, tmp_path / "file")
    assert restored(running, PutBack(tmp_path / "file"), tmp_path / "new", witness=witness)
    with served(running, tmp_path / "new", witness) as back:
        assert spent(back) == spent(running) == first.charged_nano + second.charged_nano
        again = back.ask(YOUNG, length=80)
        assert (again.estimate, again.charged_nano) == (second.estimate, 0)
        assert back.ask(YOUNG, length=20).charged_nano > 0
        # The witness is one: of two copies that go on, the second is refused.
        with pytest.raises(JournalError, match="has seen"):
            running.ask({"age": 25})


def test_a_witness_that_has_seen_more_refuses_and_leaves_nothing(
    running: Deployment, tmp_path: Path
) -> None:
    running.ask({"age": 20})
    backed_up(running, tmp_path / "file")
    running.ask({"age": 21})
    witness = WitnessSettings(tmp_path / "other", required=True)
    for word in ((), ("town",)):
        request = PutBack(tmp_path / "file", nothing_since=word)
        with pytest.raises(JournalError, match="older copy was put back"):
            restored(running, request, tmp_path / "new", witness=witness)
    assert not list(tmp_path.glob("new*"))


def test_without_a_word_history_is_answered_and_nothing_is_drawn(
    running: Deployment, tmp_path: Path
) -> None:
    first = running.ask({"age": 20})
    backed_up(running, tmp_path / "file")
    running.ask({"age": 20}, length=10)
    said: list[str] = []
    assert not restored(running, PutBack(tmp_path / "file"), tmp_path / "new", said=said)
    assert "CLOSED" in said[-1]
    with served(running, tmp_path / "new") as back:
        before = spent(back)
        again = back.ask({"age": 20})
        assert (again.estimate, again.charged_nano) == (first.estimate, 0)
        with pytest.raises(ClosedError):
            back.ask({"age": 20}, length=10)
        assert (spent(back), n_charged(back)) == (before, 1)
        assert any("closed" in f.text for f in examine(back.registry, back.settings))
        see_to_witnesses(
            registry := Registry(
                tmp_path / "new", witness=WitnessSettings(tmp_path / "new", required=True)
            ),
            accept=(),
        )
        backed_up(replace(back, registry=registry), tmp_path / "second")
    # No later restore and no later word opens it again.
    request = PutBack(tmp_path / "second", nothing_since=("town",))
    assert not restored(running, request, tmp_path / "newer")
    seen = WitnessSettings(tmp_path / "new", required=True)
    assert not restored(running, PutBack(tmp_path / "second"), tmp_path / "newest", witness=seen)


def test_the_owners_word_is_journalled_and_opens(running: Deployment, tmp_path: Path) -> None:
    running.ask({"age": 20})
    backed_up(running, tmp_path / "file")
    request = PutBack(tmp_path / "file", nothing_since=("town",))
    assert restored(running, request, tmp_path / "new")
    assert b'"word":"nothing since"' in (tmp_path / "new/worker/journals/town.journal").read_bytes()
    with served(running, tmp_path / "new") as back:
        assert back.ask({"age": 22}, length=8).charged_nano > 0


def test_later_journals_bring_back_what_was_charged_since(
    running: Deployment, tmp_path: Path
) -> None:
    running.ask({"age": 20})
    backed_up(running, tmp_path / "file")
    later = running.ask({"age": 21})
    journals, witness = (
        running.registry.journals,
        WitnessSettings(tmp_path / "other", required=True),
    )
    request = PutBack(tmp_path / "file", journals=journals)
    assert restored(running, request, tmp_path / "new", witness=witness)
    with served(running, tmp_path / "new", witness) as back:
        assert spent(back) == spent(running)
        assert back.ask({"age": 21}).estimate == later.estimate
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "town.journal").write_bytes(b"{}\n")
    with pytest.raises(JournalError, match="other lines"):
        restored(running, PutBack(tmp_path / "file", journals=foreign), tmp_path / "newer")


def test_a_backup_at_every_step_of_a_spend_has_what_was_charged_and_told(
    running: Deployment, tmp_path: Path
) -> None:
    told = running.ask(YOUNG, length=80)
    spender = running.spender()
    taken: list[tuple[Path, int]] = []

    def copying(target: Any, name: str) -> None:
        original = getattr(target, name)

        def step(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            file = tmp_path / f"file{len(taken)}"
            backed_up(running, file)
            taken.append((file, spent(running)))
            return found

        setattr(target, name, step)

    for name in ("reserve", "draw", "release", "publish"):
        copying(spender._spends, name)
    for name in ("reserve", "publish", "acknowledge"):
        copying(spender._writer, name)
    running.submit(YOUNG, length=20)
    running.work_off(spender)
    last = running.ask(YOUNG, length=20)
    assert len(taken) >= 7
    seen = set[int]()
    for place, (file, charged) in enumerate(taken):
        state = tmp_path / f"state{place}"
        restored(running, PutBack(file, nothing_since=("town",)), state)
        with served(running, state) as back:
            assert spent(back) >= charged
            assert back.ask(YOUNG, length=80).estimate in (told.estimate, last.estimate)
            # What the backup has of the draw is never drawn again.
            if n_drawn(state) == 2:
                assert back.ask(YOUNG, length=20).estimate == last.estimate
            seen.add(n_drawn(state))
    assert seen == {1, 2}


def test_a_backup_or_restore_that_is_killed_leaves_nothing_and_can_be_repeated(
    running: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.ask({"age": 20})

    def killed(module: Any, name: str, run: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            child = os.fork()
            if not child:
                run()
                os._exit(0)
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1])

    file = tmp_path / "file"
    killed(backups._Sealing, "seal", lambda: backed_up(running, file))
    assert not file.exists()
    assert file.with_name("file.partial").exists()
    backed_up(running, file)
    killed(backups, "_check", lambda: restored(running, PutBack(file), tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    restored(running, PutBack(file), tmp_path / "new")
    assert not list(tmp_path.glob("*.partial"))


def parts_of(file: Path) -> Mapping[str, int]:
    """Where the bytes of each part begin."""
    with tarfile.open(file, mode="r:") as tar:
        return {member.name: member.offset_data for member in tar if member.size}


def test_a_changed_byte_is_refused_by_name(running: Deployment, tmp_path: Path) -> None:
    running.ask({"age": 20})
    file, changed = tmp_path / "file", tmp_path / "changed"
    backed_up(running, file)
    text = file.read_bytes()
    parts = parts_of(file)
    assert {name.split("/")[0] for name in parts} == {"store", "worker", "backup.json"}
    assert sum("journals" in name or "seals" in name for name in parts) == 2
    for name, offset in parts.items():
        altered = bytearray(text)
        altered[offset] ^= 1
        changed.write_bytes(altered)
        with pytest.raises((StoreCorruptError, ConfigError)) as failed:
            restored(running, PutBack(changed), tmp_path / "new")
        assert name in str(failed.value) or name == "backup.json"
    for place in range(0, len(text), 97):
        altered = bytearray(text)
        altered[place] ^= 16
        changed.write_bytes(altered)
        with pytest.raises((StoreCorruptError, ConfigError)):
            read_note(changed)
    changed.write_bytes(text[:-100])
    with pytest.raises((StoreCorruptError, ConfigError)):
        read_note(changed)


def test_a_store_that_is_not_the_journals_is_not_put_back(
    running: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control of the books: without them a backup of a tampered store would serve."""
    running.ask({"age": 20})
    backed_up(running, tmp_path / "file")
    monkeypatch.setattr(backups, "restore", lambda *_, **__: True)
    restored(running, PutBack(tmp_path / "file"), tmp_path / "new")
    connect(running.settings.redis_url, role="test").delete(Keys("town").charges)
    backed_up(running, tmp_path / "tampered")
    with pytest.raises(StoreCorruptError, match="not put back"):
        restored(running, PutBack(tmp_path / "tampered"), tmp_path / "newer")
    assert not (tmp_path / "newer").exists()


def test_bad_places_and_files_get_one_line(running: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "file"
    backed_up(running, file)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="not be there yet"):
        backed_up(running, file)
    with pytest.raises(ConfigError, match="be writable"):
        backed_up(running, tmp_path / "nowhere" / "file")
    with pytest.raises(ConfigError, match="be an empty folder"):
        restored(running, PutBack(file), tmp_path / "state")
    with pytest.raises(ConfigError, match="be a whole backup"):
        restored(running, PutBack(running.data), tmp_path / "new")
    with pytest.raises(ConfigError, match="population of the backup"):
        restored(running, PutBack(file, nothing_since=("city",)), tmp_path / "new")
    nobody = Registry(tmp_path / "empty")
    with pytest.raises(ConfigError, match="attached dataset"):
        back_up(
            tmp_path / "second",
            settings=running.settings,
            registry=nobody,
            with_data=True,
            say=print,
        )


def test_a_server_of_its_own_sends_a_snapshot(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path / "state", store_url)
    first = town.ask({"age": 20})
    back_up(
        tmp_path / "file",
        settings=town.settings,
        registry=town.registry,
        with_data=True,
        say=lambda text: pytest.fail(text),
    )
    assert restored(town, PutBack(tmp_path / "file", nothing_since=("town",)), tmp_path / "new")
    with served(town, tmp_path / "new") as back:
        assert spent(back) == spent(town)
        assert back.ask({"age": 20}).estimate == first.estimate


def test_without_data_history_is_answered_until_the_seals_are_there(
    running: Deployment, tmp_path: Path
) -> None:
    first, said = running.ask({"age": 20}), list[str]()
    backed_up(running, tmp_path / "file", with_data=False)
    assert not [name for name in parts_of(tmp_path / "file") if "seals" in name]
    request = PutBack(tmp_path / "file", nothing_since=("town",))
    assert restored(running, request, tmp_path / "new", said=said)
    assert "warning: data of people: not in the backup" in said
    for seal in running.registry.seals.iterdir():
        (tmp_path / "new/worker/seals" / seal.name).write_bytes(seal.read_bytes())
    with served(running, tmp_path / "new") as back:
        assert back.ask({"age": 20}).estimate == first.estimate
        assert back.ask({"age": 22}, length=8).charged_nano > 0
