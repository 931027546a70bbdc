"""A campaign of hostile input: `python -m tests.hostile --seed 1 --examples 1000 --report FILE`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.hostile.document_run import run_document
from tests.hostile.forms import hostile_forms, try_form
from tests.hostile.inputs import hostile_inputs, hostile_workloads
from tests.hostile.route_inputs import route_inputs
from tests.hostile.stage import Stage, running_stage
from tests.hostile.trial import KINDS, Trial, try_input

PHASES = ("coverage", "fuzzing", "stateful")


def main() -> int:
    """Run everything against a real server; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=1000, help="random cases per operation")
    parser.add_argument("--report", type=Path, help="file for the report (default: only printed)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_stage(Path(folder), wait_s=2) as stage:
        report = campaign(stage, seed=args.seed, n_examples=args.examples, folder=Path(folder))
    text = json.dumps(report, indent=1)
    print(text)
    if args.report:
        args.report.write_text(text + "\n", encoding="utf-8")
    return 1 if report["findings"] else 0


def campaign(stage: Stage, *, seed: int, n_examples: int, folder: Path) -> dict[str, Any]:
    """Every hostile input on every route, then schemathesis; what was found, and the figures."""
    before = stage.peak_megabytes()
    trials = [
        try_input(hostile, stage=stage, kind=kind)
        for kind in KINDS
        for hostile in hostile_inputs()
        if kind != "probability" or not hostile.about_requirement
    ]
    trials += [try_input(hostile, stage=stage, kind="workload") for hostile in hostile_workloads()]
    trials += [try_input(hostile, stage=stage) for hostile in route_inputs(stage.model)]
    trials += [try_form(form, stage=stage) for form in hostile_forms(stage.model)]
    peak = stage.peak_megabytes()
    runs = [
        run_document(
            stage, dataset=name, seed=seed, n_examples=n_examples, phases=PHASES, folder=folder
        )
        for name in ("people", "wide")
    ]
    faults = [asdict(trial) for trial in trials if trial.fault]
    return {
        "seed": seed,
        "inputs": len(trials),
        "slowest": asdict(max(trials, key=_seconds)),
        "megabytes_at_rest": round(before),
        "megabytes_at_most": round(peak),
        "schemathesis_cases": sum(run.n_cases for run in runs),
        "schemathesis_operations": runs[0].n_operations,
        "findings": [*faults, *(finding for run in runs for finding in run.findings)],
        "tracebacks": _n_tracebacks(stage),
    }


def _seconds(trial: Trial) -> float:
    return trial.seconds


def _n_tracebacks(stage: Stage) -> int:
    return sum(path.read_text().count("Traceback") for path in stage.logs.iterdir())


if __name__ == "__main__":
    sys.exit(main())
