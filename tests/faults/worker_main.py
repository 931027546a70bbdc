"""A worker that passes traps: `python -m tests.faults.worker_main FOLDER run ...`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.steps import WITNESSES, Traps, lay, record_draws
from worker.cli import main

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    record_draws(folder / "draws.txt", folder / WITNESSES)
    lay(Traps(folder))
    sys.exit(main(sys.argv[2:]))
