"""`python -m tests.benchmarks.one_start URL FOLDER SHAPE N HOW`: one start, measured by itself.

HOW is `replayed`, which writes a checkpoint in the end, or `resumed` from it. It prints one line of
JSON.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Start as a process does that serves questions, and answer the first ones."""
    url, folder, shape, n, how = sys.argv[1:]
    import json

    from qserver.answering.checkpoint import found, kept, shared_folder
    from qserver.answering.decide import decide
    from qserver.answering.replica import Replica
    from qserver.config import Settings
    from qserver.query.question import Question
    from qserver.query.requirement import Requirement
    from qserver.service.service import Service
    from qserver.storage.store import Store

    imported = time.process_time()
    from .long_histories import SHAPES, meta_of

    clock = time.process_time
    questions = list(islice(SHAPES[shape].queries(1), int(n) + 1))
    made = clock()
    settings = Settings(redis_url=url, state_dir=Path(folder), open_access=True)
    store, meta = Store.open(settings), meta_of(SHAPES[shape])
    Service(store, settings)
    files = shared_folder(settings.state_dir)
    saved = found(files, meta, settings) if how == "resumed" else None
    replica = Replica(meta, settings, shown_only=True, saved=saved)
    replica.refresh(store)
    decide(replica, Question(questions[0], Requirement(1000, 0.95)))
    known = clock()
    decide(replica, Question(questions[-1], Requirement(1, 0.95), "auto"))
    planned = clock()
    memory = _memory()
    if how == "replayed":
        kept(replica.saved, files, meta, settings)
    facts = {"import_s": imported, "answer_s": known - made, "plan_s": planned - known, **memory}
    sys.stdout.write(json.dumps(facts) + "\n")


def _memory() -> dict[str, float]:
    """Memory of this process in MB: private, and with pages that it shares with others."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    kb = {name: int(found[name].split()[0]) for name in ("RssAnon", "VmRSS", "VmHWM")}
    return {
        "private_mb": kb["RssAnon"] / 1000,
        "resident_mb": kb["VmRSS"] / 1000,
        "most_mb": kb["VmHWM"] / 1000,
    }


if __name__ == "__main__":
    main()
