"""List the claims about a dataset, or put others in their place.

The journal comes first, so that a restored store gets them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.records.claim import Claim, ClaimStatus, claims_json
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.owner_records import ClaimsSet
from worker.owner.checks.population import check_store_remembers
from worker.owner.claims.claim_file import check_claims, claims_in_force
from worker.private.registry import Registry


@dataclass(frozen=True)
class ClaimsNow:
    """The claims of a dataset, each with what it can be known with now at most."""

    dataset: str
    claims: tuple[ClaimStatus, ...]


def claims_of(name: str, *, settings: Settings) -> ClaimsNow:
    """The claims in force, and how well each can be known now; NotFoundError."""
    reader = Store.open(settings, role="worker-reader")
    replica = Replica(reader.meta(name), settings, shown_only=False)
    replica.refresh(reader)
    return ClaimsNow(name, tuple(ClaimStatus.of(*one) for one in replica.known_claims))


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
    store, reader = SpendingStore.open(settings), Store.open(settings, role="worker-reader")
    meta = reader.meta(name)
    check_claims(replace(meta, claims=tuple(claims)))
    journal = registry.journal(meta.population, create=False)
    with journal.exclusive():
        check_store_remembers(store, journal, meta.population)
        text = claims_json(claims)
        if claims_json(claims_in_force(meta, journal.state)) != text:
            journal.append(ClaimsSet(meta.snapshot, text))
        if meta.snapshot in journal.state.claims:
            store.owner.set_claims(meta, claims)
        store.await_durable()
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
