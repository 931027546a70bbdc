"""A worker that passes traps: `python -m tests.faults.worker_main FOLDER run ...`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import worker.spending.spend as spending
from tests.faults.steps import WITNESSES, Traps, lay, record_draws
from worker.cli import main
from worker.constants import WORKER

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    # However slow the machine: whatever waits is spent for together.
    spending.WORKER = replace(WORKER, group_planning_s=60.0)  # type: ignore[attr-defined]
    record_draws(folder / "draws.txt", folder / WITNESSES)
    lay(Traps(folder))
    sys.exit(main(sys.argv[2:]))
