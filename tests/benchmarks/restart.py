"""The first answers after a start, with a checkpoint and without, on histories of years.

`python -m tests.benchmarks.restart [--sizes N ...] [--kinds KIND ...]`. Each start is a process of
its own. `import` is what a process takes that does nothing else; to it come `answer`, the first one
from history, and then `plan`, the first one of a question that must be measured. Times are of the
processor. `private` is memory that no other process shares; `resident` has the mapped checkpoint
and libraries as well.

Histories: `many` asks three of twelve attributes with ten values each, `dense` three of four,
`wide` three of twenty with fifty values. Each question is a random half of the values.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from qserver.config import Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore

from .load import ROOT
from .long_histories import SHAPES, fill, meta_of

_SIZES = (100, 1_000, 5_000)
_KINDS = ("many", "dense")
_SEED = 1
_LEASE_MS = 600_000
_COLUMNS = ("import_s", "answer_s", "plan_s", "private_mb", "resident_mb", "most_mb")


def main() -> int:
    """Measure and print a table, line by line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.restart")
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--kinds", nargs="+", choices=sorted(SHAPES), default=_KINDS)
    asked = parser.parse_args()
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    sys.stdout.write(" ".join(["history", "questions", "start", *_COLUMNS]) + "\n")
    for kind in asked.kinds:
        for n in asked.sizes:
            _measure(kind, n)
    return 0


def _measure(kind: str, n: int) -> None:
    """Fill a store, and start on it in both ways."""
    with tempfile.TemporaryDirectory() as text, EmbeddedServer.start(Path(text) / "s") as server:
        folder = Path(text) / "state"
        settings = Settings(redis_url=server.url, state_dir=folder, lease_ms=_LEASE_MS)
        shape = SHAPES[kind]
        fill(SpendingStore.open(settings), meta_of(shape), list(islice(shape.queries(_SEED), n)))
        for how in ("replayed", "resumed"):
            found = _start(server.url, folder, kind, n, how)
            figures = [f"{found[column]:.3g}" for column in _COLUMNS]
            sys.stdout.write(" ".join([kind, str(n), how, *figures]) + "\n")
            sys.stdout.flush()
        (path,) = (folder / "checkpoints").iterdir()
        sys.stdout.write(f"the checkpoint has {path.stat().st_size / 1e6:.3g} MB\n")


def _start(url: str, folder: Path, kind: str, n: int, how: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.one_start"]
    command += [url, str(folder), kind, str(n), how]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    facts: dict[str, float] = json.loads(found.stdout)
    return facts


if __name__ == "__main__":
    sys.exit(main())
