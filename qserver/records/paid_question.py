"""Paid questions: the questions that budget was spent on, in the order of the spends.

They are public, and the planner of blocks uses nothing else: past questions show what may be asked
again. Processes that read the same list make the same plans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Measure, measure_of
from qserver.records.charge import on_domain
from qserver.records.codec import as_, plain, read

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

    as_list: ClassVar = True

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
    price_nano: int = field(metadata=as_("price"))
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
        return json.dumps(plain(self))

    @classmethod
    def from_json(cls, text: str, sizes: Sequence[int], *, is_known: bool = False) -> PaidQuestion:
        """The question that `to_json` wrote.

        Args:
            is_known: whether it was read before; then its row is read when it is needed.
        """
        found = read(cls, json.loads(text), on_domain(tuple(sizes), is_known=is_known))
        measure_of(found.measure)
        return found
