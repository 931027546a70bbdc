"""Every scenario of the audit, right and with each fault that it must catch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qserver.storage.embedded import EmbeddedServer
from tests.privacy.audit import SCENARIOS, audit
from tests.privacy.neighbours import Site

REFINING = ("refined", "table")
"""Scenarios in which fresh noise in place of refined noise shows."""


def run(
    folder: Path, *, n_runs: int, seed: int, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Findings by scenario and fault, as JSON values; `n_runs` deployments each."""
    found = []
    with EmbeddedServer.start(folder / "store") as server:
        site = Site.open(folder / "worker", server.url)
        for name in only or SCENARIOS:
            faults = ["none", "too little noise", *["refined afresh"] * (name in REFINING)]
            for fault in faults:
                finding = audit(site, name, n_runs=n_runs, seed=seed, fault=fault)
                as_expected = finding.is_kept == (fault == "none")
                found.append({**finding.document(), "as_expected": as_expected})
                sys.stderr.write(f"{found[-1]}\n")
    return found
