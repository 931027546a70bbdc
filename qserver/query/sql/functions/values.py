"""The values of a numeric attribute, bin by bin, and functions of them as weights of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import pairwise

from qserver.query.domain import Attribute
from qserver.query.sealed import first_and_last
from qserver.query.sql.regions import ProductTerm
from qserver.query.weights import ScaledWeights, from_runs

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Values:
    """The bins of a numeric attribute; a value of it without a number is in none.

    Args:
        axis: the attribute's place in the domain.
        size: the number of its values, with those that are no numbers.
        lows, highs: per bin the least and the greatest value in it.
    """

    axis: int
    size: int
    lows: tuple[Fraction, ...]
    highs: tuple[Fraction, ...]

    @classmethod
    def of(cls, attribute: Attribute, axis: int) -> Values:
        """Those of a numeric attribute."""
        # The last whole number of a bin is one below its end.
        gap = Fraction(int(attribute.kind == "integer"))
        lows, ends = zip(*pairwise(attribute.edges), strict=True)
        return cls(axis, attribute.size, tuple(lows), tuple(end - gap for end in ends))

    @classmethod
    def of_days(cls, attribute: Attribute, axis: int) -> Values:
        """Those of an attribute in the order of time: first days, in days since 1970-01-01."""
        known = [first_and_last(name) for name in attribute.value_names[: attribute.n_regular]]
        days = tuple(Fraction((of[0] - EPOCH).days) for of in known if of is not None)
        return cls(axis, attribute.size, days, days)

    @property
    def middle(self) -> Fraction:
        """The middle of the public range."""
        return (self.lows[0] + self.highs[-1]) / 2

    @property
    def radius(self) -> Fraction:
        """Half of the public range."""
        return (self.highs[-1] - self.lows[0]) / 2

    @property
    def error(self) -> Fraction:
        """Most distance of a value from the middle of its bin."""
        return max((high - low) / 2 for low, high in zip(self.lows, self.highs, strict=True))

    def weights(self, of: Callable[[Fraction], Fraction]) -> ScaledWeights:
        """Per value a function of the distance of its bin's middle from `middle`; 0 in no bin."""
        pairs = zip(self.lows, self.highs, strict=True)
        return self._runs([of((low + high) / 2 - self.middle) for low, high in pairs])

    def _runs(self, values: Sequence[Fraction]) -> ScaledWeights:
        rest = (Fraction(0),) * (self.size - len(values))
        return from_runs(range(1, self.size + 1), (*values, *rest))


def product_term(factors: Mapping[int, ScaledWeights]) -> ProductTerm:
    """The product of these weights."""
    return ProductTerm(Fraction(1), factors)
