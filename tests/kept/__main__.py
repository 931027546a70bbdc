"""`python -m tests.kept`: keep what this version writes, in `tests/kept/VERSION`, before a release.

Into each folder: backups with store, journals and seals, checkpoints, and what they must answer.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import qserver
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.kept.making import MAKERS, answers
from worker.owner.backups import back_up

HERE = Path(__file__).parent


def main() -> None:
    """Write the folder of this version, which must not be there."""
    kept = HERE / qserver.__version__
    kept.mkdir()
    for name, make in MAKERS.items():
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            with EmbeddedServer.start(folder / "state") as server:
                at = make(folder / "state", server.url)
                found = list(answers(at, name))
                facts = {"answers": found, "spent": at.service().dataset("people").spent_nano}
                back_up(
                    folder / "file",
                    settings=replace(at.settings, redis_url=""),
                    registry=at.registry,
                    with_data=True,
                    say=print,
                )
            (kept / f"{name}.tar.gz").write_bytes(
                gzip.compress((folder / "file").read_bytes(), mtime=0)
            )
            (kept / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
