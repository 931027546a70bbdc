"""Functions of functions of sums: products, quotients, logarithms, roots and extremes of numbers.

Such a function is smooth wherever it has a value; its interval follows from draws, as that of a
quotient. A kinked function, such as the greatest of several, uses simultaneous intervals of its
smooth parts. Public bounds of a function follow from those of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.functions.function_of_sums import (
    Combination,
    FunctionOfSums,
    Kinks,
    KnownPart,
    Smooth,
)
from qserver.query.sql.functions.item_meaning import Item, Linear, Quotient, Several
from qserver.query.sql.statistics.smooth_functions import of_sums

FloatArray = NDArray[np.float64]
Range = tuple[float, float]
_STATED = Fraction(1, 20)
_BENT = frozenset({"ln", "log10", "log2", "exp", "sqrt", "cbrt", "power", "/"})
"""Functions whose slope rises or falls all over the positive numbers; of / that of 1 / x."""
_End = Callable[[Iterator[float]], float]
_Ends = tuple[float, float, bool]
"""Both ends of a number, and whether it may have no value, as an average of nobody."""
_ALL: Range = (-math.inf, math.inf)


@dataclass(frozen=True)
class Function:
    """A function of numbers.

    Args:
        values: from arrays of its arguments; NaN where it has none.
        ends: of its values, from those of its arguments.
        is_pure: whether it has no unit.
        has_kink: whether its slope jumps somewhere.
        is_steady: whether it changes by at most the sum of its arguments' changes.
    """

    values: Callable[..., FloatArray]
    ends: Callable[..., Range]
    is_pure: bool = False
    has_kink: bool = False
    is_steady: bool = False


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


def _extreme(of: Callable[[FloatArray, FloatArray], FloatArray], end: _End) -> Function:
    """The greatest of several, or the least."""
    return Function(
        lambda *given: reduce(of, given),
        lambda *given: (end(low for low, _ in given), end(high for _, high in given)),
        has_kink=True,
        is_steady=True,
    )


FUNCTIONS = {
    "+": Function(np.add, lambda a, b: (a[0] + b[0], a[1] + b[1]), is_steady=True),
    "*": Function(np.multiply, _corners(lambda a, b: a * b)),
    "/": Function(np.divide, _over),
    "greatest": _extreme(np.maximum, max),
    "least": _extreme(np.minimum, min),
    "abs": Function(np.abs, _size, has_kink=True, is_steady=True),
    "ln": _rising(np.log, -math.inf, math.inf),
    "log10": _rising(np.log10, -math.inf, math.inf),
    "log2": _rising(np.log2, -math.inf, math.inf),
    "exp": _rising(np.exp, 0.0, math.inf),
    "sqrt": _rising(np.sqrt, 0.0, math.inf),
    "cbrt": _rising(np.cbrt, -math.inf, math.inf),
    "power": Function(np.power, _power_ends, is_pure=True),
}


@dataclass(frozen=True)
class Itself(FunctionOfSums):
    """One sum, as the identity function."""

    low: float = -math.inf
    high: float = math.inf

    stated_half_width = Fraction(1)

    @property
    def smooth(self) -> Smooth:
        """The sum."""
        return Smooth(lambda parts: parts[0], self.low, self.high, is_steady=True)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The sum's."""
        [part] = parts
        return Combination(part.estimate, part.low, part.high)


@dataclass(frozen=True)
class Formula(FunctionOfSums):
    """A function of functions of sums, and of numbers.

    Args:
        name: one of `FUNCTIONS`.
        parts: its arguments.
        places: of each argument's sums.
    """

    name: str
    parts: tuple[FunctionOfSums | float, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, or by itself where there is none."""
        found = self.smooth
        width = found.high - found.low
        return Fraction(width) * _STATED if 0.0 < width < math.inf else _STATED

    @property
    def has_kinks(self) -> bool:
        """Whether it is kinked: made of smooth numbers, but not smooth."""
        return FUNCTIONS[self.name].has_kink or any(map(has_kinks, self.parts))

    @cached_property
    def _own(self) -> tuple[tuple[Smooth | float, tuple[int, ...]], ...]:
        """The arguments with the places of their sums."""
        pairs = zip(self.parts, self.places, strict=True)
        return tuple((p if isinstance(p, float) else _smooth(p), at) for p, at in pairs)

    @cached_property
    def smooth(self) -> Smooth:
        """The function; its records are those of the argument with the most sums."""
        known = [(of, at) for of, at in self._own if not isinstance(of, float)]
        low, high, _ = _of_ends(
            self.name,
            [
                (of, of, False) if isinstance(of, float) else (of.low, of.high, not of.is_steady)
                for of, _ in self._own
            ],
        )
        most, places = max(known, key=lambda one: len(one[1]))
        is_steady = self._is_scaled or FUNCTIONS[self.name].is_steady
        return Smooth(
            self._values,
            low,
            high,
            places[most.size],
            any(of.hides for of, _ in known),
            is_steady and all(of.is_steady for of, _ in known),
            self._kinks(known) if self.has_kinks else None,
        )

    @property
    def _is_scaled(self) -> bool:
        """Whether it is one number times a public one."""
        return self.name == "*" and any(isinstance(part, float) for part in self.parts)

    def _kinks(self, known: Sequence[tuple[Smooth, tuple[int, ...]]]) -> Kinks:
        pieces = self._pieces()
        if not FUNCTIONS[self.name].has_kink:
            known = [max(known, key=lambda one: len(one[1]))]
        # Of an average its own number of records counts, of the greatest count that count.
        loose = [one for one in known if not one[0].is_steady]
        rivals, needs_all = list[int](), bool(loose) and FUNCTIONS[self.name].has_kink
        for of, at in loose or known:
            rivals += [at[i] for i in ((of.size,) if of.kinks is None else of.kinks.rivals)]
            needs_all = needs_all or (of.kinks is not None and of.kinks.needs_all)

        def values(parts: FloatArray) -> FloatArray:
            return np.array([of.values(parts[list(at)]) for of, at in pieces])

        def ends(lows: FloatArray, highs: FloatArray) -> Range:
            pairs = zip(pieces, lows.tolist(), highs.tolist(), strict=True)
            return self._ends(iter([_within(of, *own) for (of, _), *own in pairs]))[:2]

        return Kinks(values, ends, tuple(dict.fromkeys(rivals)), needs_all)

    def _pieces(self) -> list[tuple[Smooth, tuple[int, ...]]]:
        """Its smooth parts, with the places of their sums."""
        found = list[tuple[Smooth, tuple[int, ...]]]()
        for part, (of, at) in zip(self.parts, self._own, strict=True):
            if isinstance(part, Formula) and part.has_kinks:
                found += [(one, tuple(at[i] for i in inner)) for one, inner in part._pieces()]
            elif not isinstance(of, float):
                found.append((of, at))
        return found

    def _ends(self, of_pieces: Iterator[_Ends]) -> _Ends:
        """Its interval from those of its pieces, in order."""
        own = list[_Ends]()
        for part in self.parts:
            if isinstance(part, float):
                own.append((part, part, False))
            elif isinstance(part, Formula) and part.has_kinks:
                own.append(part._ends(of_pieces))
            else:
                own.append(next(of_pieces))
        return _of_ends(self.name, own)

    def _values(self, parts: FloatArray) -> FloatArray:
        found = [
            of if isinstance(of, float) else of.values(parts[list(at)]) for of, at in self._own
        ]
        with np.errstate(all="ignore"):
            values = FUNCTIONS[self.name].values(*found)
        return np.where(np.isfinite(values), values, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """Its range over the arguments' intervals."""
        found = [
            Combination(part, part, part)
            if isinstance(part, float)
            else part.value([parts[i] for i in at])
            for part, at in zip(self.parts, self.places, strict=True)
        ]
        own = [
            (one.low, one.high, False) if isinstance(of, float) else _within(of, one.low, one.high)
            for one, (of, _) in zip(found, self._own, strict=True)
        ]
        low, high, _ = _of_ends(self.name, own)
        middles = [one.estimate for one in found if one.estimate is not None]
        if len(middles) < len(found):
            return Combination(None, low, high)
        with np.errstate(all="ignore"):
            estimate = float(FUNCTIONS[self.name].values(*map(np.array, middles)))
        return Combination(estimate if math.isfinite(estimate) else None, low, high)


def has_kinks(part: object) -> bool:
    """Whether a function is kinked: made of smooth numbers, but not smooth."""
    return isinstance(part, Formula) and part.has_kinks


def _within(of: Smooth, low: float, high: float) -> _Ends:
    """An interval cut to a number's public bounds; all of them for one beyond.

    If the cut adds nothing, the number may have no value.
    """
    if low > of.high or high < of.low:
        low, high = of.low, of.high
    return (
        max(low, of.low),
        min(high, of.high),
        not of.is_steady and low <= of.low < of.high <= high,
    )


def _of_ends(name: str, given: Sequence[_Ends]) -> _Ends:
    """The ends of a function from those of its arguments, some of which may have no value.

    Of several the greatest and the least are then those of the others, as in SQL.
    """
    low, high = FUNCTIONS[name].ends(*((one[0], one[1]) for one in given))
    lacks = [one[2] for one in given]
    if name not in ("greatest", "least") or not any(lacks):
        return low, high, any(lacks)
    sure = [(one[0], one[1]) for one in given if not one[2]]
    ends = [FUNCTIONS[name].ends(*sure)] if sure else [(one[0], one[1]) for one in given]
    return min(low, *(a for a, _ in ends)), max(high, *(b for _, b in ends)), all(lacks)


def applied(name: str, parts: Sequence[Item | Fraction]) -> Several | None:
    """A function of items; None if one is not smooth, or bins hide too much."""
    functions, sums, errors = list[FunctionOfSums | float](), list[Linear](), list[Fraction]()
    places, known = list[tuple[int, ...]](), dict[int, int]()
    for part in parts:
        if isinstance(part, Fraction):
            functions.append(float(part))
            places.append(())
            continue
        of = _as_several(part)
        if of.function.smooth is None or (of.error and not _is_of_value(part)):
            return None
        functions.append(of.function)
        errors.append(of.error)
        # A sum that several numbers have is one, as of a count and the greatest of it and others.
        for one in of.parts:
            if known.setdefault(id(one.terms), len(sums)) == len(sums):
                sums.append(one)
        places.append(tuple(known[id(one.terms)] for one in of.parts))
    error = _error(name, functions, errors)
    if error is None:
        return None
    return Several(tuple(sums), Formula(name, tuple(functions), tuple(places)), error)


def _is_of_value(item: Item) -> bool:
    """Whether the bins' error is known for its value, not per record."""
    return isinstance(item, Several) or (isinstance(item, Quotient) and item.is_average)


def _error(
    name: str, parts: Sequence[FunctionOfSums | float], errors: Sequence[Fraction]
) -> Fraction | None:
    """Bound on the bins' error in a function, from its arguments' errors; None for no bound.

    For a convex or concave function it is reached at an end of the public range.
    """
    if not any(errors):
        return Fraction(0)
    if FUNCTIONS[name].is_steady:
        return sum(errors, Fraction(0)) if name == "+" else max(errors)
    if len(errors) > 1 or name not in _BENT:
        return None
    [of] = [_smooth(part) for part in parts if not isinstance(part, float)]
    off = float(errors[0])
    if of.low - off <= 0.0 and name != "exp":
        return None
    ends = np.array([of.low - off, of.low, of.high, of.high + off])
    with np.errstate(all="ignore"):
        values = FUNCTIONS[name].values(*(p if isinstance(p, float) else ends for p in parts))
    found = float(np.abs(np.diff(values))[[0, 2]].max())
    return Fraction(math.nextafter(found, math.inf)) if math.isfinite(found) else None


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
