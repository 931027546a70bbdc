"""How values travel in JSON: epsilon as a decimal number, wide integers as texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qserver.records.answer import Offer

SAFE_INTEGER = (1 << 53) - 1
NANO = 10**9


def epsilon(nano: int) -> float:
    """`nano` / 10^9, correctly rounded: it prints as the exact decimal below 10^15 nano."""
    return nano / NANO


def wire_integer(value: int) -> int | str:
    """The integer itself, or its decimal text where a double could not hold it."""
    return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)


def wire_value(value: Any) -> Any:
    """A JSON value with every wide integer in it as a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return wire_integer(value)
    if isinstance(value, list | tuple):
        return [wire_value(v) for v in value]
    if isinstance(value, dict):
        return {k: wire_value(v) for k, v in value.items()}
    return value


def free_document(free: Offer | Sequence[Offer | None] | None) -> Any:
    """The free interval or null; for a workload one of these per question."""
    if free is None or isinstance(free, Offer):
        return free and offer_document(free)
    return [offer and offer_document(offer) for offer in free]


def offer_document(offer: Offer) -> dict[str, Any]:
    """What history says at no cost."""
    return {
        "interval": [offer.low, offer.high],
        "confidence": offer.confidence,
        "free_length": offer.free_length,
        "law": offer.law,
    }
