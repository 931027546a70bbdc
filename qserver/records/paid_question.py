"""Paid questions: the questions that budget was spent on, in the order of the spends.

They are public, and the planner of blocks uses nothing else: past questions show what may be asked
again. Processes that read the same list make the same plans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from qserver.query.linear import LinearQuery, query_from_document
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Measure, measure_of

Base = tuple[tuple[tuple[tuple[int, int], ...], float], ...]
"""Blocks with their alphas in epsilon per record. A block gives the number of parts, with phantoms,
of each attribute that it splits."""


@dataclass(frozen=True)
class FittedBase:
    """A fitted base.

    Args:
        octave: class of precision of the tightest requirements that it serves.
        depth: the finest level of its blocks.
        is_finest: whether blocks could have the finest levels that there were; None where it was
            not written down, as in version 1.
    """

    octave: int
    depth: int
    base: Base
    is_finest: bool | None = None


@dataclass(frozen=True)
class PaidQuestion:
    """A question that budget was spent on.

    Args:
        row: primitive row of the query.
        half_width: the required half-width, in records of the row.
        confidence: 1 - delta.
        kind: of the plan that met it.
        price_nano: its price; the first question of a workload carries the whole price.
        bases: bases that were fitted for this question, the best ones for all questions so far.
        measure: what its asker allowed to be measured. It counts in the demand either way: own rows
            would have cost the same, and it may be asked again.
    """

    row: LinearQuery
    half_width: float
    confidence: float
    kind: str
    price_nano: int
    bases: tuple[FittedBase, ...] = ()
    measure: Measure = "auto"

    @cached_property
    def form(self) -> Primitive:
        """The normal form of the row."""
        return primitive(self.row)

    @property
    def finest_bases(self) -> list[FittedBase]:
        """The bases of the finest levels; the deepest ones where that was not written down."""
        deepest = max((b.depth for b in self.bases), default=0)
        return [
            b for b in self.bases if (b.depth == deepest if b.is_finest is None else b.is_finest)
        ]

    def to_json(self) -> str:
        """The question as JSON text; floats survive exactly."""
        plain: dict[str, Any] = {
            "row": self.row.to_document(),
            "half_width": self.half_width,
            "confidence": self.confidence,
            "kind": self.kind,
            "price": self.price_nano,
        }
        if self.bases:
            plain["bases"] = [_fitted_document(b) for b in self.bases]
        if self.measure != "auto":
            plain["measure"] = self.measure  # earlier versions wrote none
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str, sizes: Sequence[int], *, is_known: bool = False) -> PaidQuestion:
        """The question that `to_json` wrote.

        Args:
            is_known: whether it was read before; then its row is read when it is needed.
        """
        plain = json.loads(text)
        read = LinearQuery.later if is_known else query_from_document
        return cls(
            row=read(sizes, plain["row"]),
            half_width=float(plain["half_width"]),
            confidence=float(plain["confidence"]),
            kind=plain["kind"],
            price_nano=plain["price"],
            bases=tuple(
                FittedBase(octave, depth, _base(base), is_finest=finest[0] if finest else None)
                for octave, depth, base, *finest in plain.get("bases", ())
            ),
            measure=measure_of(plain.get("measure", "auto")),
        )


def _fitted_document(fitted: FittedBase) -> list[Any]:
    finest = [] if fitted.is_finest is None else [fitted.is_finest]
    return [fitted.octave, fitted.depth, _base_document(fitted.base), *finest]


def _base_document(base: Base) -> list[Any]:
    return [[[list(part) for part in block], alpha] for block, alpha in base]


def _base(plain: Sequence[Sequence[Any]]) -> Base:
    return tuple(
        (tuple((int(axis), int(n_parts)) for axis, n_parts in block), float(alpha))
        for block, alpha in plain
    )
