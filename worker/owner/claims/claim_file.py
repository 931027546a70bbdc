"""The owner's claims: read from a file and checked, at an attach or later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from qserver.errors import ConfigError
from qserver.ledger.claims import ClaimBounds, claimed_queries
from qserver.records.claim import Claim, claims_from_json, claims_from_plain
from qserver.records.dataset import DatasetMeta
from worker.journal.state import JournalState

MAX_BYTES = 1 << 20


def load_claims(path: Path | None) -> tuple[Claim, ...]:
    """The claims in a JSON file: one object or a list of them; none without a file.

    Raises:
        ConfigError: the file cannot be read, or a claim is wrong.
    """
    if path is None:
        return ()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError("claims", f"be a file of at most {MAX_BYTES >> 20} MiB")
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError("claims", f"be a readable JSON file ({type(exc).__name__})") from exc
    return claims_from_plain(plain)


def check_claims(meta: DatasetMeta) -> None:
    """Return if no claim is known before anything is asked.

    Raises:
        ConfigError: one is; the message names it.
    """
    found = claimed_queries(meta.claims, meta.domain, balanced=meta.has_known_total)
    for claim, known in ClaimBounds(found).known(every_nano=0):
        if known > claim.p:
            raise ConfigError(
                f"claims.{claim.name}",
                "ask for what is not public anyway: a query that is not the same for all data",
            )


def claims_in_force(meta: DatasetMeta, state: JournalState) -> tuple[Claim, ...]:
    """The claims that the owner last set of a snapshot, by the journal."""
    later = state.claims.get(meta.snapshot)
    if later is not None:
        return claims_from_json(later)
    attached = state.by_snapshot.get(meta.snapshot)
    text = None if attached is None else attached.details.get("meta")
    # The first versions wrote fewer facts down, and had no claims.
    return () if text is None else DatasetMeta.from_json(str(text)).claims


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """A sentence for each claim."""
    return [
        f"Claim {claim.name}: within a width of {float(claim.exact_width):.12g} it is known with "
        f"probability {claim.p} at most."
        for claim in claims
    ]
