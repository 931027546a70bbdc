"""How values are written: short and printable in errors, and numbers as people read them."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any

_MAX_NAME = 120


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


@dataclass(frozen=True)
class IntervalText:
    """An estimate and its ends as texts of equal precision, the ends rounded outward."""

    estimate: str
    low: str
    high: str


def interval_text(*, estimate: float | None, low: float, high: float) -> IntervalText:
    """Numbers fit to read: the precision is a thousandth of the interval's length or finer."""
    unit = Decimal(1).scaleb(-_n_decimals(high - low))
    shown = "" if estimate is None else _rounded(estimate, unit, ROUND_HALF_EVEN)
    return IntervalText(
        estimate=shown,
        low=_rounded(low, unit, ROUND_FLOOR),
        high=_rounded(high, unit, ROUND_CEILING),
    )


def percent_text(probability: float) -> str:
    """A confidence as a percentage, without trailing zeros."""
    return f"{(Decimal(str(probability)) * 100).normalize():f}"


def _n_decimals(length: float) -> int:
    if not 0 < length < math.inf:
        return 0 if length != 0 else 6
    return min(12, max(0, 3 - math.floor(math.log10(length))))


def _rounded(value: float, unit: Decimal, rounding: str) -> str:
    if math.isinf(value):
        return "-infinity" if value < 0 else "infinity"
    text = f"{Decimal(value).quantize(unit, rounding=rounding):,}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
