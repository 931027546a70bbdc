"""Change one byte of a state folder at rest, start on it, and compare every reply with before.

`python -m tests.faults.flips N SEED` counts N changes: refused, the same replies, brought
back by `restore`, or ALTERED. With `--without-note` the store's files have no digests, as on a
server of one's own.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flask.testing import FlaskClient

from qserver.errors import QServerError
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus
from qserver.storage.accounts import AccountBook
from qserver.storage.server.aof import NOTE
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder
from tests.deployment import LOG, Deployment
from worker.owner.checks.audit import examine
from worker.owner.restore import restore

Verdict = Literal["refused", "same", "restored", "ALTERED"]
# No question is answered by another's row or by the model's table: each has one answer.
WHERES: tuple[dict[str, object], ...] = ({"age": [20, 22]}, {"age": [23, 25]}, {"age": [26, 27]})
_NETWORK: dict[str, list[object]] = {"edges": [], "variables": ["sex"]}


@dataclass(frozen=True)
class Site:
    """A stopped deployment, and the replies that it gave."""

    town: Deployment
    jobs: tuple[str, ...]
    replies: dict[str, str]

    @property
    def folder(self) -> Path:
        """Its state folder."""
        return self.town.settings.state_dir


def make_site(folder: Path) -> Site:
    """A deployment with released answers, a model, accounts and an allowance; stopped."""
    with EmbeddedServer.start(folder) as server:
        return site_of(Deployment.make(folder, server.url))


def site_of(town: Deployment) -> Site:
    """A deployment's site, once questions were asked, an account made and a model learnt."""
    book = AccountBook(connect(town.settings.store_url, role="test"))
    book.create("ann", "analyst")
    book.allow("ann", "town", Allowance(10**9))
    jobs = []
    for where in WHERES:
        found = town.submit(where, by="ann")
        assert isinstance(found, JobStatus)
        town.work_off()
        jobs.append(found.id)
    document = {"kind": "network", "network": _NETWORK, "epsilon": 0.1}
    model = town.web().post("/v1/datasets/people/models", json=document).get_json()
    jobs.append(str(model["id"]))
    town.work_off()
    site = Site(town, tuple(jobs), {})
    return replace(site, replies=replies_of(site, town))


def replies_of(site: Site, town: Deployment) -> dict[str, str]:
    """Status and body of every request that tells something of the store."""
    web, found = town.web(), dict[str, str]()
    paths = ["/readyz", "/v1/datasets", "/v1/datasets/people", "/v1/datasets/people/history"]
    paths += [f"/v1/jobs/{job}" for job in site.jobs]
    paths += ["/v1/datasets/people/models", f"/v1/datasets/people/models/{site.jobs[-1]}"]
    paths += ["/v1/audit", "/v1/datasets/people/audit", "/v1/datasets/people/spending"]
    paths += ["/v1/datasets/people/ledger", "/portal/", "/portal/datasets/people"]
    paths += ["/portal/datasets/people/history", "/portal/datasets/people/budget", "/portal/jobs"]
    paths += [f"/portal/jobs/{job}" for job in site.jobs]
    paths += [f"/portal/datasets/people/models/{site.jobs[-1]}"]
    for path in paths:
        found[path] = _told(web, path)
    for i, where in enumerate(WHERES):
        body = {"query": {"where": where}, "length": 40, "confidence": 0.95}
        reply = web.post("/v1/datasets/people/query", json=body)
        found[f"question {i}"] = f"{reply.status_code} {reply.get_data(as_text=True)}"
    return found


def _told(web: FlaskClient, path: str) -> str:
    reply = web.get(path)
    body = reply.get_json() if reply.is_json else None
    if isinstance(body, dict):
        # A worker's sign of life and the forecast are of the moment.
        body = {k: v for k, v in body.items() if k not in ("workers", "worker_alive", "request_id")}
        return f"{reply.status_code} {json.dumps(_without_worker(body), sort_keys=True)}"
    return str(reply.status_code)


def _without_worker(plain: object) -> object:
    if isinstance(plain, dict):
        return {k: _without_worker(v) for k, v in plain.items() if k != "worker_alive"}
    return [_without_worker(v) for v in plain] if isinstance(plain, list) else plain


def files_of(site: Site) -> list[Path]:
    """The files that hold the store and the journal, by their path within the folder."""
    data = StateFolder(site.folder).data
    found = [p for p in (data / "appendonlydir").iterdir() if p.is_file()]
    found += [data / NOTE, *(site.folder / "worker").rglob("*.jsonl")]
    journals = [p for p in (site.folder).rglob("journals/*") if p.is_file()]
    return [p.relative_to(site.folder) for p in {*found, *journals} if p.exists()]


def change_a_byte(path: Path, rng: random.Random) -> int:
    """Change one byte of a file to another; returns its place."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data))
    data[place] ^= rng.randrange(1, 256)
    path.write_bytes(bytes(data))
    return place


def verdict(site: Site, folder: Path) -> tuple[Verdict, str]:
    """The outcome on a changed copy of the folder; with the request whose reply is altered."""
    settings = replace(site.town.settings, state_dir=folder)
    try:
        with EmbeddedServer.start(folder) as server:
            settings = replace(settings, redis_url=server.url)
            registry = type(site.town.registry)(folder)
            town = replace(site.town, settings=settings, registry=registry)
            try:
                town.work_off(town.spender())
            except (QServerError, AssertionError) as exc:
                return "refused", f"worker: {type(exc).__name__}"
            now = replies_of(site, town)
            found, why = _compared(site, now)
            if found == "ALTERED" and brought_back(site, town):
                return "restored", why
            return found, why
    except QServerError as exc:
        return "refused", f"start: {type(exc).__name__}"


def _compared(site: Site, now: dict[str, str]) -> tuple[Verdict, str]:
    found: Verdict = "same"
    for path, reply in site.replies.items():
        if now[path] == reply:
            continue
        if not now[path].startswith("503"):
            return "ALTERED", f"{path}: {reply[:300]} -> {now[path][:300]}"
        found = "refused"
    return found, "replies"


def brought_back(site: Site, town: Deployment) -> bool:
    """Whether doctor tells of a fault, and the owner's restore makes every reply what it was."""
    told = any(
        f.check == "books of town" and not f.ok for f in examine(town.registry, town.settings)
    )
    try:
        restore(
            town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
        )
    except QServerError:
        return False
    return told and replies_of(site, town) == site.replies


def main(n: int, seed: int, *, with_note: bool = True) -> Counter[str]:
    """Change n bytes, one at a time, spread over the files by their size; print what came."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="qserver-flips-") as place:
        site = make_site(Path(place) / "site")
        files = files_of(site)
        sizes = [(site.folder / p).stat().st_size for p in files]
        print({str(p): size for p, size in zip(files, sizes, strict=True)})
        for i in range(n):
            copy = Path(place) / f"copy-{i}"
            shutil.copytree(site.folder, copy, symlinks=True)
            if not with_note:
                (StateFolder(copy).data / NOTE).unlink()
            chosen = rng.choices(files, sizes)[0]
            if not (copy / chosen).exists():
                continue
            at = change_a_byte(copy / chosen, rng)
            found, why = verdict(site, copy)
            counts[f"{chosen.parent.name}: {found}"] += 1
            if found == "ALTERED":
                print(chosen, at, why, flush=True)
            shutil.rmtree(copy)
    print(dict(counts))
    return counts


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), with_note="--without-note" not in sys.argv)
