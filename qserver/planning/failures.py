"""Faults of the program while planning: a fault in one way of planning costs that way alone.

Refusals, which derive from `qserver.errors`, pass. Any other error in a way is reported to the
caller, and the next way is taken. Plans depend on public facts alone, so a fault reveals nothing
private, and every process still finds the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# A fault of numpy's linear algebra is a ValueError, one of an array's bounds a LookupError.
FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class WayFault:
    """A fault of the program in one way of planning.

    Args:
        way: its name, such as `tables`.
    """

    way: str
    error: Exception


OnFault = Callable[[WayFault], None]
"""Is told of faults; it may raise them."""


def raised(fault: WayFault) -> None:
    """Raise the fault, so that none passes unseen."""
    raise fault.error


def sound(way: str, find: Callable[[], T], on_fault: OnFault) -> T | None:
    """The result of a way of planning; None after a fault, which is reported."""
    try:
        return find()
    except FAULTS as exc:
        on_fault(WayFault(way, exc))
        return None
