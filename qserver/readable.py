"""Numbers as people read them: epsilon, intervals, confidences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any


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
