"""Every scenario of the audit, right and with each fault that it must catch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from qserver.storage.server.embedded_store import EmbeddedServer
from tests.privacy.audit import FAULTS, SCENARIOS, audit
from tests.privacy.neighbours import Site

REFINING = ("refined", "table")
"""Scenarios in which fresh noise in place of refined noise shows."""


def run(
    folder: Path, *, n_runs: int, seed: int, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Findings by scenario and fault, as JSON values; `n_runs` deployments each.

    Each is made by a process of its own, on a store of its own, as many at a time as there are
    processors.
    """
    arms = [
        (name, fault)
        for name in only or SCENARIOS
        for fault in FAULTS
        if fault != "refined afresh" or name in REFINING
    ]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        begun = {
            pool.submit(_arm, folder / f"arm{i}", *arm, n_runs=n_runs, seed=seed): arm
            for i, arm in enumerate(arms)
        }
        for ended in as_completed(begun):
            arm = begun[ended]
            found[arm] = ended.result()
            sys.stderr.write(f"{found[arm]}\n")
    return [found[arm] for arm in arms]


def _arm(folder: Path, name: str, fault: str, *, n_runs: int, seed: int) -> dict[str, Any]:
    """One scenario with one fault, or none."""
    folder.mkdir()
    with EmbeddedServer.start(folder / "store") as server:
        site = Site.open(folder / "worker", server.url)
        finding = audit(site, name, n_runs=n_runs, seed=seed, fault=fault)
    as_expected = finding.is_kept == (fault == "none")
    return {**finding.document(), "as_expected": as_expected}


def markdown(findings: Sequence[Mapping[str, Any]]) -> str:
    """What was proven of each scenario, as rows of a table of studies/campaigns.md."""
    faults = tuple(FAULTS)
    names = dict.fromkeys(f["scenario"] for f in findings)
    proven = {(f["scenario"], f["fault"]): f for f in findings}
    rows = []
    for name in names:
        mine = [proven.get((name, fault)) for fault in faults]
        ledger = next(f["ledger"] for f in mine if f)
        cells = [f"{f['epsilon_at_least']:.2f}" if f else "" for f in mine]
        spends = sum(sum(f["plans"].values()) for f in mine if f)
        rows.append(f"| {name} | {ledger:g} | {' | '.join(cells)} | {spends:,} |")
    return "\n".join(rows)
