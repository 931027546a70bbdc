"""The method, exactness and prior for the posterior of one question.

*A prior* truncates the law of the question, at one end or at both. It never truncates each cell:
that would bias a sum of many cells far upwards. Statements under a prior are Bayesian, not
frequencies over repeated noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from qserver.errors import InputError

if TYPE_CHECKING:
    from qserver.query.primitive import Primitive

PriorKind = Literal["non-negative", "known-total", "between"]
PRIOR_KINDS: tuple[PriorKind, ...] = get_args(PriorKind)
WANTED = 'be `non-negative`, `known-total`, or {"between": [a, b]} with a < b'


@dataclass(frozen=True)
class Prior:
    """A prior: ends between which the answer is assumed to lie, in the query's units.

    Args:
        kind: `non-negative`: at least 0; `known-total`: bounds from the public number of records;
            `between`: both ends as given.
        low: lower end, or None.
        high: upper end, or None.

    Raises:
        InputError: `between` without two finite ends in rising order.
    """

    kind: PriorKind
    low: float | None = field(default=None, metadata={"always": True})
    high: float | None = field(default=None, metadata={"always": True})

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
        """The prior with its ends for a query.

        Args:
            row: the query's normal form.
            total: the number of records, if public.

        Raises:
            InputError: the prior does not apply to this query or dataset.
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
        """Both ends, infinite if open."""
        low = -math.inf if self.low is None else self.low
        return low, math.inf if self.high is None else self.high


def prior_of(value: object) -> Prior:
    """The prior in a request; InputError if it is none."""
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
    """A prior's assumption, as a phrase."""
    low, high = prior.ends
    if prior.kind == "non-negative":
        return "held to be at least 0"
    known = " by the number of records" if prior.kind == "known-total" else ""
    return f"held to lie from {low:,.10g} to {high:,.10g}{known}"


Method = Literal["auto", "convolution", "monte-carlo"]
"""`auto`: the exact law. The others are algorithms 2 and 1 of Xiao and Xiong (2012)."""
METHODS: tuple[Method, ...] = get_args(Method)
USUAL_ERROR: Final = 4e-3
LEAST_ERROR, MOST_ERROR = 1e-3, 1e-2
LEAST_DRAWS, MOST_DRAWS = 10_000, 2_000_000


@dataclass(frozen=True)
class Reading:
    """The method and prior of one question; they change neither plan nor price.

    Args:
        method: how probabilities are computed.
        step: of the lattice of `convolution`, in the query's units; None leaves it to `error`.
        draws: of `monte-carlo`; None leaves it to `error`.
        error: wanted numerical error of probabilities; the answer states the attained one.
        prior: the prior of the answer, or None.

    Raises:
        InputError: a value is out of range, or belongs to another method; names the field.
    """

    method: Method = "auto"
    step: float | None = None
    draws: int | None = None
    error: float = USUAL_ERROR
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError("method", "be `auto`, `convolution` or `monte-carlo`")
        if self.step is not None:
            self._check_step(self.step)
        if self.draws is not None:
            self._check_draws(self.draws)
        if not LEAST_ERROR <= self.error <= MOST_ERROR:
            raise InputError("error", f"lie from {LEAST_ERROR} to {MOST_ERROR}", self.error)

    def _check_step(self, step: float) -> None:
        if self.method != "convolution":
            raise InputError("step", "be left out unless `method` is `convolution`", step)
        if not 0.0 < step < math.inf:
            raise InputError("step", "be a finite number > 0", step)

    def _check_draws(self, draws: int) -> None:
        if self.method != "monte-carlo":
            raise InputError("draws", "be left out unless `method` is `monte-carlo`", draws)
        if not LEAST_DRAWS <= draws <= MOST_DRAWS:
            raise InputError(
                "draws", f"be a whole number from {LEAST_DRAWS:,} to {MOST_DRAWS:,}", draws
            )

    def on(self, row: Primitive, *, total: int | None) -> Reading:
        """The reading with its prior's ends for a query; see `Prior.on`."""
        return self if self.prior is None else replace(self, prior=self.prior.on(row, total=total))

    @property
    def unusual(self) -> str:
        """The first field with another value than the default; '' if none."""
        usual = Reading()
        for name in ("method", "prior", "error"):
            if getattr(self, name) != getattr(usual, name):
                return name
        return ""


AS_EVER = Reading()


def reading_text(method: str, *, step: float | None, draws: int | None, prior: Prior | None) -> str:
    """The method and prior as a phrase; '' for the exact law without a prior."""
    by = {"convolution": "by convolution", "monte-carlo": "by Monte Carlo"}.get(method, "")
    if step is not None:
        by += f" with a step of {step:.6g}"
    if draws is not None:
        by += f" with {draws:,} draws"
    parts = [by] if by else []
    if prior is not None:
        parts.append(prior_text(prior))
    return ", ".join(parts)
