"""What is held true of an answer before the released answers are looked at.

A prior cuts the law of the question asked, at one end or at both. It never cuts each cell: that
would put a sum of many cells far too high. What is said under a prior is a Bayesian statement, and
no frequency over repeated noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from qserver.errors import InputError

if TYPE_CHECKING:
    from qserver.query.primitive import Primitive

PriorKind = Literal["non-negative", "known-total", "between"]
PRIOR_KINDS: tuple[PriorKind, ...] = get_args(PriorKind)
WANTED = 'be `non-negative`, `known-total`, or {"between": [a, b]} with a < b'


@dataclass(frozen=True)
class Prior:
    """Ends that the answer is held to lie between, in the query's units.

    Args:
        kind: `non-negative`: at least 0; `known-total`: what the public number of records allows;
            `between`: both ends as given.
        low, high: the ends; None for an open end, and for those that `on` has not found yet.

    Raises:
        InputError: `between` without two finite ends in rising order.
    """

    kind: PriorKind
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in PRIOR_KINDS:
            raise InputError("prior", WANTED)
        if any(end is not None and not math.isfinite(end) for end in (self.low, self.high)):
            raise InputError("prior", "have finite ends")
        if self.kind == "between" and not (
            self.low is not None and self.high is not None and self.low < self.high
        ):
            raise InputError("prior", WANTED)

    def on(self, row: Primitive, *, total: int | None) -> Prior:
        """The prior with the ends that it means for a query.

        Args:
            row: the query's normal form.
            total: the number of records where that is public.

        Raises:
            InputError: the prior says nothing true of this query or dataset.
        """
        if self.kind == "between" or row.is_zero:
            return self
        least, most = sorted((row.multiplier * row.low, row.multiplier * row.high))
        if self.kind == "non-negative":
            if least < 0:
                raise InputError(
                    "prior",
                    "not be `non-negative` for a query that counts some records with a weight "
                    "below 0",
                    hint='Give {"between": [a, b]} if you know more.',
                )
            return replace(self, low=0.0)
        if total is None:
            raise InputError(
                "prior",
                "not be `known-total` for a dataset whose number of records is not public",
                hint='Give {"between": [a, b]} if you know it from elsewhere.',
            )
        return replace(self, low=float(least * total), high=float(most * total))

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; an open one is infinite."""
        low = -math.inf if self.low is None else self.low
        return low, math.inf if self.high is None else self.high

    def to_plain(self) -> dict[str, Any]:
        """The prior as plain JSON values."""
        return {"kind": self.kind, "low": self.low, "high": self.high}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Prior:
        """The prior that `to_plain` wrote; InputError if it is none."""
        return cls(plain["kind"], plain["low"], plain["high"])


def prior_of(value: object) -> Prior:
    """The prior that a request gives; InputError if it is none."""
    if value in ("non-negative", "known-total"):
        return Prior(value)
    if isinstance(value, Mapping) and set(value) == {"between"}:
        ends = value["between"]
        if isinstance(ends, list | tuple) and len(ends) == 2 and all(map(_is_number, ends)):
            return Prior("between", float(ends[0]), float(ends[1]))
    raise InputError("prior", WANTED)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def prior_text(prior: Prior) -> str:
    """What a prior holds true, as a phrase."""
    low, high = prior.ends
    if prior.kind == "non-negative":
        return "held to be at least 0"
    known = " by the number of records" if prior.kind == "known-total" else ""
    return f"held to lie from {low:,.10g} to {high:,.10g}{known}"
