"""The choice between ways of planning: a fault of the program in one way costs that way alone.

Refusals, which are of the tree of `qserver.errors`, pass. Whatever else goes wrong in a way is told
to whoever asked for the plan, and the next way is taken. Plans depend on public facts alone, so a
fault tells nothing that is private, and every process finds the same plan in spite of it.
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
    """Raise the fault: for whoever wants none to pass unseen."""
    raise fault.error


def sound(way: str, find: Callable[[], T], on_fault: OnFault) -> T | None:
    """What a way of planning finds; None if the program has a fault there, which is told."""
    try:
        return find()
    except FAULTS as exc:
        on_fault(WayFault(way, exc))
        return None
