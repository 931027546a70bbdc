"""Requirements on an answer: length of its interval, confidence, what may be measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import Literal, get_args

from qserver.errors import InputError, RequirementError

MIN_DELTA = 1e-9
MIN_LENGTH = 1e-9
MAX_LENGTH = 1e15

Measure = Literal["auto", "only_this"]
"""`auto`: the planner may buy tables that later questions use as well. `only_this`: rows for this
question alone, with the help of whatever was released before."""
MEASURES: tuple[Measure, ...] = get_args(Measure)

DEFAULT_PHI = 0.4
"""Least waste by single rows, as a part of a base's price, at which its blocks are bought.

And the part of own rows' price that is risked for blocks which settled within one scope alone.
"""


@dataclass(frozen=True)
class Requirement:
    """An interval of at most `length`, in the units of the query, at `confidence`.

    Args:
        length: full length L of the interval, finite and > 0.
        confidence: 1 - delta, in (0, 1 - 1e-9].

    Raises:
        RequirementError: a value is out of range; the message names the field.
    """

    length: float
    confidence: float

    def __post_init__(self) -> None:
        check_length(self.length)
        check_confidence(self.confidence)

    @property
    def half_width(self) -> float:
        """L / 2."""
        return self.length / 2

    @property
    def log_inverse_delta(self) -> float:
        """ln(1 / delta), the half-width of one Laplace variable of scale 1."""
        return -log1p(-self.confidence)

    def is_looser_than(self, other: Requirement) -> bool:
        """Whether meeting `other` implies meeting this requirement."""
        return self.length >= other.length and self.confidence <= other.confidence


def check_length(length: float) -> None:
    """Raise RequirementError unless `length` is a finite number in [1e-9, 1e15]."""
    if not _is_number(length) or not MIN_LENGTH <= length <= MAX_LENGTH:
        raise RequirementError("length", "be a number in [1e-9, 1e15]", length)


def check_confidence(confidence: float) -> None:
    """Raise RequirementError unless `confidence` is in (0, 1 - 1e-9]."""
    if not _is_number(confidence) or not 0 < confidence <= 1 - MIN_DELTA:
        raise RequirementError("confidence", "be a number in (0, 0.999999999]", confidence)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def measure_of(value: object) -> Measure:
    """The `measure` that a text names; InputError for another text."""
    for known in MEASURES:
        if value == known:
            return known
    raise InputError("measure", "be `auto` or `only_this`", value)
