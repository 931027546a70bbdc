"""A claim as everybody may see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qserver.records.claims.claim import Claim


@dataclass(frozen=True)
class ClaimStatus:
    """A dataset's claim, and how well it can be known now.

    Args:
        query: as a question over HTTP has it.
        width: of the interval, in the query's unit.
        p: most probability at which the query may be known to lie within such an interval.
        known: most probability at which it can be known so now.
    """

    name: str
    query: Mapping[str, Any]
    width: float
    p: float
    known: float

    @classmethod
    def of(cls, claim: Claim, known: float) -> ClaimStatus:
        """The face of a claim."""
        return cls(claim.name, claim.query_document, float(claim.exact_width), claim.p, known)
