"""A store that lost the end of what it knew, at any place: refused, or brought up from the journal.

A replica that is behind knows a beginning of what its primary did, and so does an append-only file
whose end was lost: each cut below stands for both.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qserver.errors import NotFoundError, StoreBehindError
from qserver.storage.encoding.digests import unsealed
from qserver.storage.keys import Keys
from qserver.storage.server.aof import NOTE, last_increment
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import Deployment
from tests.faults.checks import Books, faults
from worker.private.registry import Registry

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "the ledger is the sum of the charges; each reservation is charged once",
    ),
    pytest.mark.promise(
        "Faults and races",
        "an answer that was acknowledged stays, bit for bit, also of a workload; a model that was"
        " shown is kept",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a store that lost the end of what it knew is refused, or brought up from the journal",
    ),
]

N_CUTS = 10
SEED = 7


@dataclass(frozen=True)
class Recording:
    """A deployment that was killed, and the results of its jobs as they were acknowledged."""

    folder: Path
    town: Deployment
    results: Mapping[str, str]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("recorded")
    with EmbeddedServer.start(folder / "store") as server:
        town = Deployment.make(folder, server.url, limit="100")
        spender = town.spender()
        for i, length in enumerate((60, 50, 40, 30, 20)):
            town.submit({"age": {"below": 23 + i % 3}}, length=length)
            town.submit({"sex": "Male"}, length=length / 2)
            town.work_off(spender)
        client = connect(server.url, role="test")
        names = [str(name) for name in client.scan_iter("qs:{town}:job:*")]
        jobs = {name.rsplit(":", 1)[1]: client.hget(name, "result") for name in names}
        os.kill(server.pid, signal.SIGKILL)
    return Recording(folder, town, {job: str(text) for job, text in jobs.items()})


def a_copy(recording: Recording, folder: Path, n_bytes: int) -> None:
    """Copy the deployment to `folder`, its store cut to so many bytes.

    The note of the file's digest goes, with which the server would refuse to load what is left.
    """
    shutil.copytree(recording.folder, folder, ignore=shutil.ignore_patterns("*.sock", "run"))
    path = last_increment(data_folder(folder))
    assert path is not None
    os.truncate(path, n_bytes)
    (data_folder(folder) / NOTE).unlink(missing_ok=True)


def data_folder(folder: Path) -> Path:
    """Where the store of a deployment has its files."""
    (found,) = (p.parent.parent for p in (folder / "store").rglob("*.manifest"))
    return Path(found)


def file_of(recording: Recording) -> bytes:
    path = last_increment(data_folder(recording.folder))
    assert path is not None
    return path.read_bytes()


def outcome_at(recording: Recording, folder: Path, n_bytes: int) -> str:
    """`refused`, or `whole` when everything holds again after the cut."""
    a_copy(recording, folder, n_bytes)
    with EmbeddedServer.start(folder / "store") as server:
        town = replace(
            recording.town,
            settings=replace(recording.town.settings, redis_url=server.url, state_dir=folder),
            registry=Registry(folder),
        )
        client = connect(server.url, role="test")
        client.delete(Keys("town").lease)  # its time is over
        try:
            town.work_off()
        except StoreBehindError:
            return "refused"
        books = Books.read(client, "town", town.registry.journal("town", create=False))
        assert faults(books) == []
        for job, result in recording.results.items():
            if job in books.reservations and job not in books.burnt:
                assert books.jobs[job]["result"] == unsealed(result, name=job)
    return "whole"


@pytest.mark.slow
def test_a_store_cut_anywhere_is_refused_or_brought_up_from_the_journal(
    recording: Recording, tmp_path: Path
) -> None:
    """10 cuts, half of them in the middle of a command; those in the last spend can be mended."""
    text = file_of(recording)
    last_spend = text.rindex(b"paid:", 0, text.rindex(b"shown:"))
    attached = text.index(b"qs:datasets")
    rng = random.Random(SEED)
    ends = [m.start() for m in re.finditer(rb"\*\d+\r\n\$\d+\r\n[A-Za-z]+\r\n", text)]
    late = [end for end in ends if end > last_spend]
    early = [end for end in ends if attached < end < last_spend]
    cuts = rng.sample(late, N_CUTS // 2) + rng.sample(early, N_CUTS // 2)
    cuts = [cut + (rng.randrange(1, 9) if i % 2 else 0) for i, cut in enumerate(cuts)]
    found = [outcome_at(recording, tmp_path / str(cut), cut) for cut in cuts]
    assert "whole" in found[: N_CUTS // 2]
    assert "refused" in found[N_CUTS // 2 :]


@pytest.mark.slow
def test_a_store_with_all_it_wrote_is_whole(recording: Recording, tmp_path: Path) -> None:
    assert outcome_at(recording, tmp_path / "all", len(file_of(recording))) == "whole"


@pytest.mark.slow
def test_a_store_with_nothing_left_is_refused(recording: Recording, tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "empty") as server:
        settings = replace(recording.town.settings, redis_url=server.url)
        town = replace(recording.town, settings=settings)
        with pytest.raises(NotFoundError):
            town.submit({"age": 20})
        with pytest.raises(StoreBehindError):
            town.writer().acquire("town")
