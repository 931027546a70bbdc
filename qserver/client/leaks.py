"""What a client is told of what a network could leak, before it is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, repr=False)
class LeakAudit:
    """How well anyone could tell whose records a network was learnt from; `document` is all of it.

    Args:
        complexity: independent parameters of the model.
        table_complexity: independent numbers in the tables that would be released; at most so many
            where `table_complexity_is_exact` is False.
        bound, limit: areas under the curves of what is released: by the structure, and by the
            lesser of that and the cap; 1/2 is guessing.
        cap: the area that epsilon allows, or None without an epsilon.
        passes: what the gate decided, and in `reason` why; None without a gate.
    """

    complexity: int
    table_complexity: int
    table_complexity_is_exact: bool
    bound: float
    limit: float
    cap: float | None
    passes: bool | None
    reason: str
    document: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The audit that the server's JSON holds."""
        areas, decision = document["auc"], document["decision"]
        return cls(
            complexity=document["complexity"],
            table_complexity=document["table_complexity"],
            table_complexity_is_exact=document["table_complexity_is_exact"],
            bound=areas["bound"],
            limit=areas["limit"],
            cap=areas["cap"],
            passes=None if decision is None else decision["passes"],
            reason="" if decision is None else decision["reason"],
            document=document,
        )

    def __repr__(self) -> str:
        verdict = {None: "", True: "; passes", False: "; refused"}[self.passes]
        return f"<LeakAudit area {self.limit:.4f} at most, {self.bound:.4f} by structure{verdict}>"


@dataclass(frozen=True, repr=False)
class StructureProposal:
    """A structure proposed under a cap on what it could leak; `document` is all of it.

    Args:
        network: as `learn_network` takes it; without edges where not even that passes.
        score: sum of the scores of its attributes' parents.
        complexity: independent parameters of the model.
        table_complexity: independent numbers in the tables that would be released; at most so many
            where `table_complexity_is_exact` is False.
        passes: what the gate decided, and in `reason` why.
    """

    network: Mapping[str, Any]
    score: float
    complexity: int
    table_complexity: int
    table_complexity_is_exact: bool
    passes: bool
    reason: str
    document: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The proposal that the server's JSON holds."""
        return cls(
            network=document["network"],
            score=document["score"],
            complexity=document["complexity"],
            table_complexity=document["table_complexity"],
            table_complexity_is_exact=document["table_complexity_is_exact"],
            passes=document["decision"]["passes"],
            reason=document["decision"]["reason"],
            document=document,
        )

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs (parent, child)."""
        return tuple((parent, child) for parent, child in self.network["edges"])

    def __repr__(self) -> str:
        verdict = "passes" if self.passes else "refused"
        return f"<StructureProposal {len(self.edges)} edges; {verdict}>"
