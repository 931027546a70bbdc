"""The steps of all searched numbers: which numbers are open, and which are left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from qserver.query.sql.statistics.smooth_functions import Place

ROOM = 1.0 + 1e-6
"""A half-width that is known is asked for with so much room, so that rounding costs nothing."""


class Known(Protocol):
    """The known interval of a number."""

    @property
    def is_known(self) -> bool:
        """Whether history tells the number."""
        ...


A = TypeVar("A")
K = TypeVar("K", bound=Known)
N = TypeVar("N")


class SearchSteps(ABC, Generic[A, K, N]):
    """The numbers of one kind in one statement, each measured until exact as asked.

    Args:
        asked: the numbers, by their places in the table.
    """

    def __init__(self, asked: Mapping[Place, A]) -> None:
        self._asked = asked
        self._known: Mapping[Place, K] = {}
        self._next: dict[Place, N] = {}
        self._left_out = set[Place]()

    @property
    def is_none(self) -> bool:
        """Whether the statement has no such number."""
        return not self._asked

    @property
    def goes_on(self) -> bool:
        """Whether a number's interval is still too long."""
        return any(map(self._is_open, self._asked))

    @property
    def open_places(self) -> dict[Place, float]:
        """The numbers to measure further, each with the loss that it costs a record."""
        found = [p for p in self._asked if self._is_open(p) and p not in self._left_out]
        return {place: self._price(place) for place in found}

    @property
    def is_known(self) -> bool:
        """Whether history tells all numbers."""
        return all(one.is_known for one in self._known.values())

    def leave_out(self, places: list[Place]) -> None:
        """Measure these no further."""
        self._left_out.update(places)

    @abstractmethod
    def _is_open(self, place: Place) -> bool:
        """Whether a number is less exact than asked and has enough records."""

    @abstractmethod
    def _price(self, place: Place) -> float:
        """The loss of a record by the next measurement of a number."""
