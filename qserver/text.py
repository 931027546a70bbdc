"""How values are written: short and printable in errors, and numbers as people read them."""

from __future__ import annotations

import math
import re
import reprlib
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

_MAX_NAME = 120
_COST_DIGITS = 4
_MOST_DECIMALS = 12
_NO_ERROR = 1e-9
_NUMBER = re.compile(r"-?[\d,]+(?:\.(\d+))?")
_EXACTLY = Decimal("1e-6")


def meant(name: str, among: Iterable[str]) -> str:
    """The question whether the nearest of some names is meant; '' where none is near."""
    close = get_close_matches(name[:64], sorted(among), n=1, cutoff=0.75)
    return f"Did you mean `{close[0]}`?" if close else ""


class _Shortener(reprlib.Repr):
    """`repr` of what a stranger sent: bounded in depth, in items and in digits."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 3, 8, 8, 8
        self.maxstring = self.maxlong = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        """The digits of `x`, unless Python would refuse to write so many."""
        if x.bit_length() > 4096:
            return f"a whole number of {x.bit_length():,} bits"
        return super().repr_int(x, level)

    repr_long = repr_int

    def repr_instance(self, x: object, level: int) -> str:  # noqa: ARG002 - the base's signature
        """`repr(x)`, or its type alone where that fails."""
        try:
            # Decimals and fractions as a person writes them.
            text = str(x) if isinstance(x, Decimal | Fraction) else repr(x)
        except (ValueError, RecursionError):
            return f"a {type(x).__name__}"
        return text if len(text) <= self.maxother else text[: self.maxother - 3] + "..."


_SHORTENER = _Shortener()


def short_text(value: object) -> str:
    """`repr(value)` in 80 characters at most."""
    text = _SHORTENER.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def printable(name: str) -> str:
    """`name` on one line, without characters that a log or an encoder would trip over."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name[:_MAX_NAME])
    return shown if len(name) <= _MAX_NAME else shown[: _MAX_NAME - 3] + "..."


def epsilon_text(value: Any) -> str:
    """An amount of epsilon as a plain decimal, to 1e-9 as the ledger counts."""
    text = f"{Decimal(str(value)):.9f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


def cost_text(value: Any) -> str:
    """An amount of epsilon in four significant digits at most: `0.05991`, `0`."""
    return _plain(Decimal(f"{float(value):.{_COST_DIGITS}g}"))


def left_text(value: Any) -> str:
    """The same rounded down, for what remains: no more is promised than there is."""
    exact = Decimal(str(value))
    if exact <= 0:
        return "0"
    unit = Decimal(1).scaleb(exact.adjusted() - _COST_DIGITS + 1)
    return _plain(exact.quantize(unit, rounding=ROUND_FLOOR))


def part_text(part: float) -> str:
    """A small part, such as a numerical error, to two significant digits: `0.000095`."""
    return format(Decimal(f"{part:.2g}"), "f")


def at_delta(delta: float | Fraction | None) -> str:
    """The unit behind amounts of epsilon, stated once: ` at delta 1e-09`; '' under pure privacy."""
    return "" if delta is None else f" at delta {float(delta):g}"


ADDS_NOTHING = "adds nothing to the largest loss"
"""What a price of 0 says where some people are charged, but others have lost more."""


def most_text(price: float, most: float | None) -> str:
    """The most that an answer may cost beyond its price, to end a sentence; '' for nothing."""
    if most is None or most <= price:
        return ""
    return f", up to {cost_text(most)} where released answers disagree"


def price_text(price: Any, kind: str | None) -> str:
    """A price of a plan of this kind, None for an unknown one: `0.05991 epsilon`, `free`."""
    if kind in ("free", "exact"):
        return "free"
    adds_nothing = f": {ADDS_NOTHING}" if not price and kind else ""
    return f"{cost_text(price)} epsilon{adds_nothing}"


def decimals_of(length: float) -> int:
    """Decimals that a number with an interval of this length is shown with.

    Two significant digits of half the length, three where these begin with 1; negative for tens and
    more. Rounded outward to so many an interval is at most 5 percent longer.

    Args:
        length: finite, > 0.
    """
    half = max(length / 2, sys.float_info.min)
    place = math.floor(math.log10(half))
    return min(_MOST_DECIMALS, 1 - place + (half < 2 * 10.0**place))


def aligned(texts: Sequence[str], *, point: str = " ", digit: str = " ") -> list[str]:
    """Texts of numbers with blanks behind them, so that their decimal points stand in one line.

    Args:
        texts: right-aligned when shown; what is no number is left as it is.
        point, digit: blanks as wide as a decimal point, and as a digit.
    """
    decimals = [_n_decimals(text) for text in texts]
    most = max((n for n in decimals if n is not None), default=0)

    def blanks(n: int) -> str:
        return "" if n == most else digit * (most - n) + (point if n == 0 else "")

    return [
        text if n is None else text + blanks(n) for text, n in zip(texts, decimals, strict=True)
    ]


@dataclass(frozen=True)
class IntervalText:
    """An estimate and its ends as texts of equal precision, the ends rounded outward."""

    estimate: str
    low: str
    high: str


def group_texts(group: Sequence[str | None], together: Container[int]) -> tuple[str, ...]:
    """A group's values as people read them.

    Args:
        together: the places where None stands for all values together; elsewhere it is NULL.
    """
    texts = {True: "(all)", False: "NULL"}
    return tuple(texts[k in together] if n is None else n for k, n in enumerate(group))


def interval_text(*, estimate: float | None, low: float, high: float) -> IntervalText:
    """Numbers fit to read, to the digits that `decimals_of` names."""
    length = high - low
    if length == 0:
        exact = _plain(Decimal(low).quantize(_EXACTLY), thousands=True)
        return IntervalText("" if estimate is None else exact, exact, exact)
    unit = Decimal(1).scaleb(-decimals_of(length) if length < math.inf else 0)
    shown = "" if estimate is None else _rounded(estimate, unit, ROUND_HALF_EVEN)
    return IntervalText(
        estimate=shown,
        low=_rounded(low, unit, ROUND_FLOOR),
        high=_rounded(high, unit, ROUND_CEILING),
    )


def looking_text(numbers: Sequence[LookedNumber], *, n: int) -> str:
    """What holds for each of n numbers, for all at once and for the largest, in one line.

    Args:
        numbers: those with finite intervals; '' where there is none.
    """
    finite = [x for x in numbers if x.is_finite]
    if not finite:
        return ""
    halves = [x.alone / 2 for x in finite]
    if max(halves) <= 1.01 * min(halves):
        far = _up(max(x.at_once for x in finite) / 2)
        below, above = (_up(max(x.largest[i] for x in finite)) for i in (0, 1))
        return (
            f"Each holds alone. All {n:,} at once: +-{far} for +-{_up(max(halves))}. "
            f"The largest: -{below} +{above}."
        )
    once = _times([x.at_once / x.alone for x in finite])
    top = _times([sum(x.largest) / x.alone for x in finite])
    return (
        f"Each holds alone. All {n:,} at once: {once} as long as printed. The largest: {top} as "
        "long, mostly below."
    )


def law_text(law: str, *, error: float, disagreements: int) -> str:
    """The law of an interval or a probability, with its numerical error.

    '' where it is the posterior, right to ten digits, and nothing disagrees.

    Args:
        law: `posterior`, `estimator` or `exact`.
    """
    if law == "estimator":
        return "the law of the estimate's error, whatever released answers disagree about"
    within = f"each probability within {part_text(error)}"
    if disagreements:
        plural = "" if disagreements == 1 else "s"
        given = f"given {disagreements} disagreement{plural} among released answers"
        return f"the posterior {given}, {within}"
    return f"the posterior, {within}" if error > _NO_ERROR else ""


def laws_text(laws: Sequence[str], *, error: float, disagreements: int) -> str:
    """The laws of a table's intervals, in one line; '' where nothing disagrees.

    Args:
        laws: of its numbers: `posterior`, `estimator` or `exact`.
        error, disagreements: the greatest of them.
    """
    found = []
    if disagreements:
        plural = "" if disagreements == 1 else "s"
        found.append(
            f"Up to {disagreements} disagreement{plural} among released answers are counted in; "
            f"each probability is within {part_text(error)}."
        )
    elif error > _NO_ERROR:
        found.append(f"Each probability is within {part_text(error)}.")
    if n := sum(law == "estimator" for law in laws):
        which = "The" if n == len(laws) else f"{n:,} of the {len(laws):,}"
        text = "intervals are of the estimate's error, whatever released answers disagree about."
        found.append(f"{which} {text}")
    return " ".join(found)


@dataclass(frozen=True)
class LookedNumber:
    """Lengths of the intervals of one number of a table.

    Args:
        alone: of the interval that holds by itself.
        at_once: of the one that holds with all others.
        largest: how far below and above its estimate the one for the largest reaches.
    """

    alone: float
    at_once: float
    largest: tuple[float, float]

    @property
    def is_finite(self) -> bool:
        """Whether all are finite, and there is any noise."""
        return self.alone > 0 and all(map(math.isfinite, (self.alone, self.at_once, *self.largest)))


def _up(value: float) -> str:
    """A length to three digits, rounded up; 0 for less, as rounding of floats may leave it."""
    if value <= 0.0:
        return "0"
    unit = Decimal(1).scaleb(math.floor(math.log10(value)) - 2)
    # A thousandth of the last digit is rounding of floats.
    return f"{(Decimal(value) - unit / 1000).quantize(unit, ROUND_CEILING).normalize():,f}"


def _times(factors: Sequence[float]) -> str:
    low, high = f"{min(factors):.1f}", f"{max(factors):.1f}"
    return f"{low} times" if low == high else f"{low} to {high} times"


def percent_text(probability: float) -> str:
    """A confidence as a percentage, without trailing zeros."""
    return f"{(Decimal(str(probability)) * 100).normalize():f}"


def _rounded(value: float, unit: Decimal, rounding: str) -> str:
    if math.isinf(value):
        return "-infinity" if value < 0 else "infinity"
    return f"{Decimal(value).quantize(unit, rounding=rounding) + 0:,f}"


def _n_decimals(text: str) -> int | None:
    """The number of decimals in a number's text; None for no number."""
    found = _NUMBER.fullmatch(text)
    return None if found is None else len(found[1] or "")


def _plain(value: Decimal, *, thousands: bool = False) -> str:
    text = f"{value + 0:,f}" if thousands else f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
