"""Functions of functions of sums: products, quotients, logarithms and roots of numbers.

Such a function is smooth where it has a value; its interval follows from draws, as that of a
quotient does. What is public of it follows by the ends of what is public of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.combined.function import (
    Combination,
    FunctionOfSums,
    KnownPart,
    Order,
    Smooth,
)
from qserver.query.sql.combined.meaning import Item, Linear, Quotient, Several
from qserver.query.sql.combined.smooth import of_sums

FloatArray = NDArray[np.float64]
Range = tuple[float, float]
_STATED = Fraction(1, 20)
_ALL: Range = (-math.inf, math.inf)


@dataclass(frozen=True)
class Function:
    """A function of numbers.

    Args:
        values: from arrays of its arguments; not a number where it has none.
        ends: of its values, from those of its arguments.
        is_pure: whether it has no unit, whatever its arguments have.
    """

    values: Callable[..., FloatArray]
    ends: Callable[..., Range]
    is_pure: bool = False


def _rising(of: Callable[[FloatArray], FloatArray], low: float, high: float) -> Function:
    """A function that rises with its argument, from `low` to `high`."""

    def ends(one: Range) -> Range:
        with np.errstate(all="ignore"):
            found = [float(of(np.array(end))) for end in one]
        return (
            low if math.isnan(found[0]) else found[0],
            high if math.isnan(found[1]) else found[1],
        )

    return Function(of, ends, is_pure=True)


def _corners(of: Callable[[float, float], float]) -> Callable[[Range, Range], Range]:
    """The ends of a function that is monotone in both arguments."""

    def ends(one: Range, other: Range) -> Range:
        found = [of(a, b) for a in one for b in other]
        return _ALL if any(map(math.isnan, found)) else (min(found), max(found))

    return ends


def _over(one: Range, other: Range) -> Range:
    if other[0] <= 0.0 <= other[1]:
        return _ALL
    return _corners(lambda a, b: a / b)(one, other)


def _size(one: Range) -> Range:
    low, high = sorted((abs(one[0]), abs(one[1])))
    return (0.0 if one[0] <= 0.0 <= one[1] else low), high


def _power_ends(one: Range, other: Range) -> Range:
    if one[0] < 0.0:
        return _ALL
    return _corners(lambda a, b: float(np.power(a, b)))(one, other)


FUNCTIONS = {
    "+": Function(np.add, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "*": Function(np.multiply, _corners(lambda a, b: a * b)),
    "/": Function(np.divide, _over),
    "greatest": Function(np.maximum, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "least": Function(np.minimum, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "abs": Function(np.abs, _size),
    "ln": _rising(np.log, -math.inf, math.inf),
    "log10": _rising(np.log10, -math.inf, math.inf),
    "log2": _rising(np.log2, -math.inf, math.inf),
    "exp": _rising(np.exp, 0.0, math.inf),
    "sqrt": _rising(np.sqrt, 0.0, math.inf),
    "power": Function(np.power, _power_ends, is_pure=True),
}


@dataclass(frozen=True)
class Itself:
    """One sum, as a function of itself."""

    low: float = -math.inf
    high: float = math.inf

    has_steps = True
    order: Order | None = None
    stated_half_width = Fraction(1)

    @property
    def smooth(self) -> Smooth:
        """The sum."""
        return Smooth(lambda parts: parts[0], self.low, self.high)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The sum's."""
        [part] = parts
        return Combination(part.estimate, part.low, part.high)


@dataclass(frozen=True)
class Formula:
    """A function of smooth functions, and of numbers.

    Args:
        name: which of `FUNCTIONS`.
        parts: its arguments.
        sizes: of how many sums each argument is a function; their sums follow each other.
    """

    name: str
    parts: tuple[FunctionOfSums | float, ...]
    sizes: tuple[int, ...]

    has_steps = True
    order: Order | None = None

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, or by itself where there is none."""
        found = self.smooth
        width = found.high - found.low
        return Fraction(width) * _STATED if 0.0 < width < math.inf else _STATED

    @property
    def smooth(self) -> Smooth:
        """The function; its records are those of the argument with the most sums."""
        ends, start, place, most, hides = list[Range](), 0, 0, 0, False
        for part, size in zip(self.parts, self.sizes, strict=True):
            if isinstance(part, float):
                ends.append((part, part))
                continue
            of = _smooth(part)
            ends.append((of.low, of.high))
            hides = hides or of.hides
            if size > most:
                place, most = start + of.size, size
            start += size
        low, high = FUNCTIONS[self.name].ends(*ends)
        return Smooth(self._values, low, high, place, hides)

    def _values(self, parts: FloatArray) -> FloatArray:
        found, start = list[FloatArray | float](), 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            if isinstance(part, float):
                found.append(part)
                continue
            found.append(_smooth(part).values(parts[start : start + size]))
            start += size
        with np.errstate(all="ignore"):
            values = FUNCTIONS[self.name].values(*found)
        return np.where(np.isfinite(values), values, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """All values that the intervals of the arguments allow."""
        middles, ends, start = list[float | None](), list[Range](), 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            if isinstance(part, float):
                middles.append(part)
                ends.append((part, part))
                continue
            found = part.value(parts[start : start + size])
            middles.append(found.estimate)
            ends.append((found.low, found.high))
            start += size
        low, high = FUNCTIONS[self.name].ends(*ends)
        if any(middle is None for middle in middles):
            return Combination(None, low, high)
        with np.errstate(all="ignore"):
            estimate = float(FUNCTIONS[self.name].values(*map(np.array, middles)))
        return Combination(estimate if math.isfinite(estimate) else None, low, high)


def applied(name: str, parts: Sequence[Item | Fraction]) -> Several | None:
    """A function of items; None where one of them is not smooth."""
    functions, sums, sizes = list[FunctionOfSums | float](), list[Linear](), list[int]()
    for part in parts:
        if isinstance(part, Fraction):
            functions.append(float(part))
            sizes.append(0)
            continue
        of = _as_several(part)
        if of.function.smooth is None or of.error:
            return None
        functions.append(of.function)
        sums += of.parts
        sizes.append(len(of.parts))
    return Several(tuple(sums), Formula(name, tuple(functions), tuple(sizes)))


def _as_several(item: Item) -> Several:
    if isinstance(item, Several):
        return item
    if isinstance(item, Quotient):
        return of_sums(item)
    whole = Several((Linear(item.terms),), Itself(), item.error)
    return whole.moved(item.offset) if item.offset else whole


def _smooth(part: FunctionOfSums) -> Smooth:
    found = part.smooth
    if found is None:
        raise ValueError("a formula is of smooth functions")
    return found
