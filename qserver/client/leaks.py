"""Results about possible leaks of a network, known before it is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qserver.client.reading import FromJson, at


@dataclass(frozen=True, repr=False)
class LeakAudit(FromJson):
    """How well anyone could tell whose records a network was learnt from.

    Args:
        complexity: independent parameters of the model.
        table_complexity: independent numbers in the tables that would be released; an upper bound
            if `table_complexity_is_exact` is False.
        bound, limit: areas under the curve of an attack: by the structure, and by the lesser of
            that and the cap; 1/2 is guessing.
        cap: the area that epsilon allows; None without an epsilon.
        passes: the decision of the gate, with its `reason`; None without a gate.
        document: the server's whole reply.
    """

    complexity: int
    table_complexity: int
    table_complexity_is_exact: bool
    bound: float = field(metadata=at("auc", "bound"))
    limit: float = field(metadata=at("auc", "limit"))
    cap: float | None = field(metadata=at("auc", "cap"))
    passes: bool | None = field(metadata=at("decision", "passes"))
    reason: str = field(metadata=at("decision", "reason", by=lambda text: text or ""))
    document: Mapping[str, Any] = field(compare=False, metadata=at())

    def __repr__(self) -> str:
        verdict = {None: "", True: "; passes", False: "; refused"}[self.passes]
        return f"<LeakAudit area {self.limit:.4f} at most, {self.bound:.4f} by structure{verdict}>"


@dataclass(frozen=True, repr=False)
class StructureProposal(FromJson):
    """A structure proposed under a cap on leaks.

    Args:
        network: as `learn_network` takes it; without edges if not even one edge passes.
        score: sum of the scores of its attributes' parents.
        complexity: independent parameters of the model.
        table_complexity: independent numbers in the tables that would be released; an upper bound
            if `table_complexity_is_exact` is False.
        passes: the decision of the gate, with its `reason`.
        document: the server's whole reply.
    """

    network: Mapping[str, Any]
    score: float
    complexity: int
    table_complexity: int
    table_complexity_is_exact: bool
    passes: bool = field(metadata=at("decision", "passes"))
    reason: str = field(metadata=at("decision", "reason"))
    document: Mapping[str, Any] = field(compare=False, metadata=at())

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs (parent, child)."""
        return tuple((parent, child) for parent, child in self.network["edges"])

    def __repr__(self) -> str:
        verdict = "passes" if self.passes else "refused"
        return f"<StructureProposal {len(self.edges)} edges; {verdict}>"
