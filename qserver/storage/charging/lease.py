"""The lease of a population: who may spend for it."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.errors import FencedError


@dataclass(frozen=True)
class Lease:
    """The right to spend for one population: a secret nonce and a fence that only grows."""

    population: str
    nonce: str
    fence: int


def refuse_fenced(code: int) -> None:
    """Raise FencedError if a script's reply says that the lease passed on."""
    if code == 4:
        raise FencedError("The lease passed to another worker.")
