"""The owner's claims: read from a file and checked, at an attach or later; listed, and replaced.

The journal comes first, so that a restored store gets them again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.ledger.claims import ClaimBounds, claimed_queries
from qserver.records.claim import (
    Claim,
    claims_from_json,
    claims_from_plain,
    claims_json,
)
from qserver.records.dataset import DatasetMeta
from qserver.records.statement import ClaimStatus
from qserver.storage.store import Store
from worker.journal.records import ClaimsSet
from worker.journal.state import JournalState
from worker.owner.checks.population import changing
from worker.private.registry import Registry

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


@dataclass(frozen=True)
class ClaimsNow:
    """The claims of a dataset, each with what it can be known with now at most."""

    dataset: str
    claims: tuple[ClaimStatus, ...]


def claims_of(name: str, *, settings: Settings) -> ClaimsNow:
    """The claims in force, and how well each can be known now; NotFoundError."""
    # An attach needs no inference.
    from qserver.answering.replica import Replica

    reader = Store.open(settings, role="worker-reader")
    replica = Replica(reader.meta(name), settings, shown_only=False)
    replica.refresh(reader)
    return ClaimsNow(name, tuple(claim.status(known) for claim, known in replica.known_claims))


def set_claims(
    name: str, claims: Sequence[Claim], *, settings: Settings, registry: Registry
) -> ClaimsNow:
    """Put these claims in the place of those in force, for every spend that is planned from now on.

    The journal comes first. If the command dies before the store has them, nothing is spent on the
    population until it is repeated.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: a claim is known from the start; QueryError: one is no question on the domain.
        JournalError: there is no journal of its population.
        StoreBehindError: the journal has charges that the store lacks.
        StaleVersionError: the dataset got another file meanwhile.
    """
    reader = Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    check_claims(replace(meta, claims=tuple(claims)))
    with changing(meta.population, settings=settings, registry=registry) as (store, journal):
        text = claims_json(claims)
        if claims_json(claims_in_force(meta, journal.state)) != text:
            journal.append(ClaimsSet(meta.snapshot, text))
        if meta.snapshot in journal.state.claims:
            store.owner.set_claims(meta, claims)
    return claims_of(name, settings=settings)


def known_lines(now: ClaimsNow) -> list[str]:
    """A sentence for each claim, with how well it can be known now."""
    if not now.claims:
        return [f"There are no claims about {now.dataset}."]
    return [
        f"Claim {claim.name}: within a width of {claim.width:.12g} it is known with probability "
        f"{claim.known:.6g} at most now, and {claim.p:g} at most ever."
        for claim in now.claims
    ]
