"""Estimates of a history, and the measurements that they depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.query.primitive import Primitive


class Estimates(Protocol):
    """A source of estimates, such as an `InferenceEngine`."""

    def estimate(
        self, primitive: Primitive, /, *, confidence: float, is_searched: bool
    ) -> RowEstimate | None:
        """As of `InferenceEngine`."""


@dataclass
class Grounds:
    """The measurements and rows that some estimates depend on.

    Args:
        ids: of the measurements that they were found from.
        keys: of the rows that history told.
        missing: the rows that it did not tell, with the confidence that was asked.
    """

    ids: set[int] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    missing: list[tuple[Primitive, float]] = field(default_factory=list)

    def are_so_in(self, engine: InferenceEngine, *, since: int) -> bool:
        """Whether an engine tells the same of these rows as after so many of its changes."""
        return engine.is_unchanged(since, self.ids, self.keys) and not any(
            engine.estimate(row, confidence=confidence, is_searched=False)
            for row, confidence in self.missing
        )


@dataclass(frozen=True)
class Told:
    """An engine's estimates without a search, with their grounds."""

    engine: InferenceEngine
    grounds: Grounds = field(default_factory=Grounds)

    def estimate(
        self, primitive: Primitive, /, *, confidence: float, is_searched: bool
    ) -> RowEstimate | None:
        """As of `InferenceEngine`."""
        found = self.engine.estimate(primitive, confidence=confidence, is_searched=is_searched)
        if found is None:
            self.grounds.missing.append((primitive, confidence))
        else:
            self.grounds.ids.update(found.evidence)
            self.grounds.keys.add(primitive.key)
        return found
