"""A finding of `qserver-worker doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerFinding:
    """One check: whether it passed, and the advice if not."""

    check: str
    ok: bool
    text: str
