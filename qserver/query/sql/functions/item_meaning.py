"""The meaning of an item of SELECT: linear combinations of sums, and functions of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import overload

from qserver.errors import CapacityError
from qserver.query.linear_query import MAX_TERMS
from qserver.query.sql.functions.arithmetic import Moved, Total
from qserver.query.sql.functions.function_of_sums import FunctionOfSums
from qserver.query.sql.regions import ProductTerm
from qserver.query.weights import ScaledWeights


@dataclass(frozen=True)
class Linear:
    """A linear combination of counts and sums: the sum of a function over all records.

    Args:
        terms: the function.
        error: most distance of a record's true part from its part by the middles of bins.
        offset: added once the number is released.
    """

    terms: tuple[ProductTerm, ...]
    error: Fraction = Fraction(0)
    offset: Fraction = Fraction(0)

    def scaled(self, factor: Fraction) -> Linear:
        """`factor` times it."""
        error, offset = self.error * abs(factor), self.offset * factor
        return Linear(_scaled(self.terms, factor), error, offset)

    def plus(self, other: Linear) -> Linear:
        """The sum; CapacityError if it has too many terms."""
        terms = (*self.terms, *other.terms)
        if len(terms) > MAX_TERMS:
            raise CapacityError(f"A query has at most {MAX_TERMS:,} terms. Ask its parts.")
        return Linear(terms, self.error + other.error, self.offset + other.offset)


def _scaled(terms: tuple[ProductTerm, ...], factor: Fraction) -> tuple[ProductTerm, ...]:
    return tuple(ProductTerm(t.coefficient * factor, t.factors) for t in terms)


@dataclass(frozen=True)
class Quotient:
    """A linear combination divided by another.

    Args:
        low, high: public bounds on its value, None if unknown here.
        is_average: whether the numerator is a sum over the records that the denominator counts.
    """

    numerator: Linear
    denominator: Linear
    low: Fraction | None = None
    high: Fraction | None = None
    is_average: bool = False

    def scaled(self, factor: Fraction) -> Quotient:
        """`factor` times it."""
        bounds = self.low, self.high
        if self.low is not None and self.high is not None:
            low, high = sorted((self.low * factor, self.high * factor))
            bounds = low, high
        return replace(
            self,
            numerator=self.numerator.scaled(factor),
            low=bounds[0],
            high=bounds[1],
        )

    def plus(self, other: Quotient) -> Quotient:
        """The sum of two with the same denominator."""
        known = None not in (self.low, self.high, other.low, other.high)
        low, high = (
            ((self.low or 0) + (other.low or 0), (self.high or 0) + (other.high or 0))
            if known
            else (None, None)
        )
        return Quotient(
            self.numerator.plus(other.numerator),
            self.denominator,
            None if low is None else Fraction(low),
            None if high is None else Fraction(high),
            is_average=self.is_average and other.is_average,
        )

    def moved(self, by: Fraction) -> Quotient:
        """The quotient plus a number: (N + c D) / D."""
        same = Quotient(self.denominator.scaled(by), self.denominator, by, by, is_average=True)
        return self.plus(same)


@dataclass(frozen=True)
class Several:
    """A function of several linear combinations, such as a median of counts.

    Args:
        function: with one argument per part.
        error: most distance of the true value from the one by the middles of bins.
    """

    parts: tuple[Linear, ...]
    function: FunctionOfSums
    error: Fraction = Fraction(0)

    def scaled(self, factor: Fraction) -> Several:
        """`factor` times it; the factor is not 0."""
        return self._moved(factor, Fraction(0))

    def moved(self, by: Fraction) -> Several:
        """The number plus a constant."""
        return self._moved(Fraction(1), by)

    def _moved(self, factor: Fraction, by: Fraction) -> Several:
        moved = Moved(self.function, factor, by)
        return replace(self, function=moved, error=self.error * abs(factor))

    def plus(self, other: Several) -> Several:
        """The sum of two whose WITHIN is about the same."""
        total = Total(self.function, other.function, len(self.parts), len(other.parts))
        return Several((*self.parts, *other.parts), total, self.error + other.error)


Item = Linear | Quotient | Several
"""What an item of SELECT means."""


@overload
def changed(item: Linear | Quotient, change: Callable[[Linear], Linear]) -> Linear | Quotient: ...
@overload
def changed(item: Item, change: Callable[[Linear], Linear]) -> Item: ...
def changed(item: Item, change: Callable[[Linear], Linear]) -> Item:
    """An item with each linear combination changed."""
    if isinstance(item, Linear):
        return change(item)
    if isinstance(item, Several):
        return replace(item, parts=tuple(map(change, item.parts)))
    return replace(item, numerator=change(item.numerator), denominator=change(item.denominator))


def product_term(factors: Mapping[int, ScaledWeights]) -> ProductTerm:
    """The product of these weights."""
    return ProductTerm(Fraction(1), factors)
