"""The claims of an attach: read from the owner's file, and checked before anything is kept."""

from __future__ import annotations

import json
from pathlib import Path

from qserver.errors import ConfigError
from qserver.ledger.claims.bounds import ClaimBounds, claimed_queries
from qserver.records.claims.claim import Claim, claims_from_plain
from qserver.records.dataset import DatasetMeta

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


def claim_lines(meta: DatasetMeta) -> list[str]:
    """A sentence for each claim."""
    return [
        f"Claim {claim.name}: within a width of {float(claim.exact_width):.12g} it is known with "
        f"probability {claim.p} at most."
        for claim in meta.claims
    ]
