"""schemathesis over the OpenAPI document of a running server."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.stage import Stage

_CONFIG = Path(__file__).with_name("schemathesis.toml")
_PROGRAM = "from schemathesis.cli import schemathesis; schemathesis()"


@dataclass(frozen=True)
class DocumentRun:
    """What schemathesis found.

    Args:
        n_cases: requests that it sent.
        n_operations: operations of the document that it tried.
        findings: each kind of failure once, as text.
        output: all that it printed.
    """

    n_cases: int
    n_operations: int
    findings: tuple[str, ...]
    output: str


def run_document(
    stage: Stage,
    *,
    dataset: str,
    seed: int,
    n_examples: int,
    phases: tuple[str, ...],
    folder: Path,
) -> DocumentRun:
    """Let schemathesis try every operation of a server's document, as an owner.

    Args:
        dataset: stands in every path that names one.
        n_examples: random cases for each operation, beside those that it always tries.
        phases: of `coverage`, `fuzzing` and `stateful`.
        folder: takes its report.
    """
    report = folder / "schemathesis.json"
    config = folder / "schemathesis.toml"
    config.write_text(f'{_CONFIG.read_text()}\n[parameters]\n"path.dataset" = "{dataset}"\n')
    command = [sys.executable, "-c", _PROGRAM, "--config-file", str(config), "run"]
    command += ["--header", f"Authorization: Bearer {stage.token}"]
    command += [f"{stage.url}/openapi.json", "--seed", str(seed), "--max-examples", str(n_examples)]
    command += ["--phases", ",".join(phases), "--report", "json"]
    command += ["--report-json-path", str(report), "--request-timeout", "60"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if not report.exists():
        raise AssertionError(done.stdout + done.stderr)
    found = json.loads(report.read_text(encoding="utf-8"))
    faults = [*found["failures"], *found["errors"]]
    return DocumentRun(
        n_cases=found["test_cases"]["generated"],
        n_operations=found["operations"]["tested"],
        findings=tuple(json.dumps(fault) for fault in faults),
        output=done.stdout,
    )
