"""`python -m tests.benchmarks NAME`: run one benchmark, print its table, write its JSON.

With `--kept` nothing runs: the full table of the kept results is printed.
"""

from __future__ import annotations

import os

# numpy reads it once, when it loads; a benchmark is of one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
from pathlib import Path

from .headlines import HEADLINES, headline_text
from .machine import machine_facts
from .registry import benchmark_names, benchmark_of
from .results import RESULTS, full_text, kept
from .tables import table_text, with_table, write_json

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that the command line names."""
    asked = _parser().parse_args(arguments)
    if asked.kept:
        sys.stdout.write(full_text(kept(asked.name)))
        return 0
    machine = machine_facts()
    report = benchmark_of(asked.name)(quick=asked.quick)
    document = report.document(machine=machine, is_quick=asked.quick)
    table = table_text(document["rows"])
    sys.stdout.write(f"{report.title}\n\n{table}\n")
    if asked.out is not None:
        write_json(asked.out / f"{report.name}.json", document)
    elif not asked.quick:
        # Only a full run may replace the figures that are kept and shown.
        write_json(RESULTS / f"{report.name}.json", document)
        if report.name in HEADLINES:
            text = DOCUMENT.read_text(encoding="utf-8")
            shown = headline_text(report.name, report.rows)
            DOCUMENT.write_text(with_table(text, report.name, shown), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("name", choices=benchmark_names(), help="which benchmark")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="a small version, to see that it works")
    how.add_argument("--kept", action="store_true", help="print the kept results; nothing runs")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for the JSON; without it a full run replaces the results that are kept and "
        "the table in the documentation, and a quick one writes nothing",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
