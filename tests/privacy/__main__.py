"""`python -m tests.privacy CAMPAIGN`: attack the server's privacy at length, with a JSON report."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

CAMPAIGNS = ("audit", "timing")


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; 0 if every promise was kept and every control was caught, else 1."""
    asked = _parser().parse_args(arguments)
    begun = time.monotonic()
    campaign = import_module(f"tests.privacy.{asked.campaign}_campaign")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        findings: list[dict[str, Any]] = campaign.run(
            Path(folder), n_runs=asked.runs, seed=asked.seed, only=asked.only
        )
    report = {
        "campaign": asked.campaign,
        "seed": asked.seed,
        "runs": asked.runs,
        "seconds": round(time.monotonic() - begun),
        "as_expected": all(f["as_expected"] for f in findings),
        "findings": findings,
    }
    text = json.dumps(report, indent=1)
    sys.stdout.write(f"{text}\n")
    sys.stderr.write(f"{campaign.markdown(findings)}\n")
    if asked.out is not None:
        asked.out.write_text(text + "\n", encoding="utf-8")
    return 0 if report["as_expected"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.privacy", description=__doc__)
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--runs", type=int, default=10_000, help="deployments, or timings, each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="one scenario; may be given several times")
    parser.add_argument("--folder", type=Path, help="where to work; a memory disk saves time")
    parser.add_argument("--out", type=Path, help="file for the report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
