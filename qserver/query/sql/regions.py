"""Sets of cells as disjoint boxes, and functions of one record on them.

A SUM adds up a function, which is a sum of product terms. A numeric attribute has the value of its
bin's middle, so a function is known up to `error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import chain, pairwise

from qserver.errors import CapacityError
from qserver.query.class_grid import Box, check_mask_bits, disjoint_union, mask_weights
from qserver.query.domain import Attribute
from qserver.query.linear_query import MAX_TERMS
from qserver.query.weights import ScaledWeights, from_runs, product

# Disjoint boxes that cover a set of cells: one empty box covers everything, no box nothing.
Region = tuple[Box, ...]
ALL: Region = ({},)
NOTHING: Region = ()

# Most steps on small masks for one text: about a second.
MAX_STEPS = 1 << 18
_WORD = 1 << 13


@dataclass
class Regions:
    """Sets of cells of a domain with `sizes` values per attribute, with a limit on work.

    Every operation raises CapacityError if a set needs too many boxes, or all sets together need
    too many steps.

    Args:
        steps_left: falls with each operation.
    """

    sizes: tuple[int, ...]
    steps_left: int = MAX_STEPS

    def of_mask(self, axis: int, mask: int) -> Region:
        """The cells whose value on `axis` has its bit set."""
        if mask == 0:
            return NOTHING
        return ALL if mask == (1 << self.sizes[axis]) - 1 else ({axis: mask},)

    def both(self, one: Region, other: Region) -> Region:
        """The cells in both."""
        self.take(len(one) * len(other), self._n_bits(one, other))
        found = tuple(box for a in one for b in other if (box := _intersection(a, b)) is not None)
        return self._checked(found)

    def either(self, parts: Sequence[Region]) -> Region:
        """The cells in at least one."""
        boxes = [*self._by_axis([p[0] for p in parts if len(p) == 1])]
        boxes += [box for p in parts if len(p) != 1 for box in p]
        if any(not box for box in boxes):
            return ALL
        self.take(len(boxes), self._n_bits(tuple(boxes)))
        # It counts the pairs that it compares: at most the square of the number of boxes found.
        found = tuple(disjoint_union(boxes, self.sizes, max_comparisons=self.steps_left))
        self.take(len(boxes) * len(found), self._n_bits(found))
        return self._checked(found)

    def joined(self, parts: Sequence[Region], *, all_of: bool) -> Region:
        """The cells in all sets, or in at least one."""
        return reduce(self.both, parts, ALL) if all_of else self.either(parts)

    def take(self, n: int, n_bits: int = 0) -> None:
        """Count `n` steps on masks of `n_bits` bits each."""
        self.steps_left -= n * (1 + n_bits // _WORD)
        if self.steps_left < 0:
            raise CapacityError("The conditions need too many steps to be told apart. Ask parts.")

    def _by_axis(self, boxes: Sequence[Box]) -> list[Box]:
        """Boxes on the same single attribute, joined into one."""
        masks: dict[int, int] = {}
        others: list[Box] = []
        for box in boxes:
            if len(box) == 1:
                ((axis, mask),) = box.items()
                self.take(1, self.sizes[axis])
                masks[axis] = masks.get(axis, 0) | mask
            else:
                others.append(box)
        joined = [self.of_mask(axis, mask)[0] for axis, mask in masks.items()]
        return [*joined, *others]

    def _n_bits(self, *regions: Region) -> int:
        return sum(self.sizes[axis] for axis in set().union(*chain.from_iterable(regions)))

    def _checked(self, region: Region) -> Region:
        if len(region) > MAX_TERMS:
            raise CapacityError(
                f"The conditions need more than {MAX_TERMS:,} disjoint terms. Ask parts."
            )
        check_mask_bits(len(region) * self._n_bits(region))
        return region


def _intersection(one: Box, other: Box) -> Box | None:
    found = dict(one)
    for axis, mask in other.items():
        kept = found.get(axis, mask) & mask
        if not kept:
            return None
        found[axis] = kept
    return found


Factors = Mapping[int, ScaledWeights]


@dataclass(frozen=True)
class ProductTerm:
    """A coefficient times one weight vector per attribute; a missing one is all ones."""

    coefficient: Fraction
    factors: Factors


ONE = (ProductTerm(Fraction(1), {}),)


@dataclass(frozen=True)
class RecordFunction:
    """A function of one record; zero if it has no value there.

    Args:
        terms: the function, of the middles of bins.
        present: the records on which it has a value (is not NULL).
        low, high: bounds on its values, also on the true ones.
        error: most distance of a record's true value from the value for the middles.
    """

    terms: tuple[ProductTerm, ...]
    present: Region
    low: Fraction
    high: Fraction
    error: Fraction = Fraction(0)

    @property
    def size(self) -> Fraction:
        """Bound on the absolute value."""
        return max(-self.low, self.high)


ABSENT = RecordFunction((), NOTHING, Fraction(0), Fraction(0))


def constant_function(value: Fraction) -> RecordFunction:
    """The same value for every record."""
    terms = (ProductTerm(value, {}),) if value else ()
    return RecordFunction(terms, ALL, value, value)


class Functions:
    """Functions of records of a domain, within the work limit of `regions`."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._weights: dict[tuple[int, int], ScaledWeights] = {}

    def of_attribute(self, attribute: Attribute, axis: int) -> RecordFunction:
        """The value of a numeric attribute, by the middle of its bin; none for `other`."""
        self._regions.take(attribute.size)
        # The last whole number of a bin is one below its end.
        gap = Fraction(int(attribute.kind == "integer"))
        ends = [(low, high - gap) for low, high in pairwise(attribute.edges)]
        middles = [(low + high) / 2 for low, high in ends]
        values = middles + [Fraction(0)] * attribute.has_other
        weights = from_runs(range(1, len(values) + 1), values)
        return RecordFunction(
            terms=(ProductTerm(Fraction(1), {axis: weights}),),
            present=self._regions.of_mask(axis, (1 << attribute.n_regular) - 1),
            low=ends[0][0],
            high=ends[-1][1],
            error=max((high - low) / 2 for low, high in ends),
        )

    def of_values(self, axis: int, numbers: Mapping[int, Fraction]) -> RecordFunction:
        """A number per mask of an attribute's values; none for others."""
        size = self._regions.sizes[axis]
        self._regions.take(len(numbers), size)
        values, known = [Fraction(0)] * size, 0
        for mask, number in numbers.items():
            known |= mask
            runs = self._weights_of(axis, mask).weights
            for (start, stop), is_there in zip(
                pairwise((0, *runs.stops)), runs.values, strict=True
            ):
                if is_there:
                    values[start:stop] = [number] * (stop - start)
        return RecordFunction(
            terms=(ProductTerm(Fraction(1), {axis: from_runs(range(1, size + 1), values)}),),
            present=self._regions.of_mask(axis, known),
            low=min(numbers.values(), default=Fraction(0)),
            high=max(numbers.values(), default=Fraction(0)),
        )

    def plus(self, one: RecordFunction, other: RecordFunction) -> RecordFunction:
        """The sum, if both have a value."""
        present = self._regions.both(one.present, other.present)
        terms = (*self._within(one, other.present), *self._within(other, one.present))
        return RecordFunction(
            self._checked(terms),
            present,
            one.low + other.low,
            one.high + other.high,
            one.error + other.error,
        )

    def times(self, one: RecordFunction, other: RecordFunction) -> RecordFunction:
        """The product, if both have a value."""
        terms = self.multiplied(one.terms, other.terms)
        ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
        # ab - AB = a (b - B) + B (a - A)
        error = one.size * other.error + other.size * one.error
        present = self._regions.both(one.present, other.present)
        return RecordFunction(terms, present, min(ends), max(ends), error)

    def scaled(self, one: RecordFunction, factor: Fraction) -> RecordFunction:
        """`factor` times the function."""
        terms = tuple(ProductTerm(t.coefficient * factor, t.factors) for t in one.terms)
        low, high = sorted((one.low * factor, one.high * factor))
        return RecordFunction(terms, one.present, low, high, one.error * abs(factor))

    def restricted(self, one: RecordFunction, region: Region) -> RecordFunction:
        """The function on the records of a region; no value elsewhere."""
        present = self._regions.both(one.present, region)
        terms = self._checked(self._on(one.terms, region))
        return RecordFunction(terms, present, one.low, one.high, one.error)

    def joined(self, one: RecordFunction, other: RecordFunction) -> RecordFunction:
        """Two functions with values on different records, as one."""
        if not one.present or not other.present:
            return one if one.present else other
        return RecordFunction(
            self._checked((*one.terms, *other.terms)),
            (*one.present, *other.present),
            min(one.low, other.low),
            max(one.high, other.high),
            max(one.error, other.error),
        )

    def indicator(self, region: Region) -> tuple[ProductTerm, ...]:
        """1 on the records of a region, 0 elsewhere."""
        # This joins boxes that differ in one attribute only.
        return self._on(ONE, self._regions.either([(box,) for box in region]))

    def multiplied(
        self, terms: tuple[ProductTerm, ...], others: tuple[ProductTerm, ...]
    ) -> tuple[ProductTerm, ...]:
        """The product of two sums of terms."""
        if others == ONE or terms == ONE:
            return terms if others == ONE else others
        self._take_terms(len(terms) * len(others))
        return tuple(self._multiplied(a, b) for a in terms for b in others)

    def _within(self, one: RecordFunction, region: Region) -> tuple[ProductTerm, ...]:
        return one.terms if region in (ALL, one.present) else self._on(one.terms, region)

    def _on(self, terms: tuple[ProductTerm, ...], region: Region) -> tuple[ProductTerm, ...]:
        if region == ALL:
            return terms
        boxes = [{a: self._weights_of(a, mask) for a, mask in box.items()} for box in region]
        return self.multiplied(terms, tuple(ProductTerm(Fraction(1), b) for b in boxes))

    def _weights_of(self, axis: int, mask: int) -> ScaledWeights:
        """Cached indicator weights of a mask, shared by groups."""
        found = self._weights.get((axis, mask))
        if found is None:
            found = self._weights[axis, mask] = mask_weights(mask, self._regions.sizes[axis])
        return found

    def _multiplied(self, one: ProductTerm, other: ProductTerm) -> ProductTerm:
        factors = dict(one.factors)
        for axis, weights in other.factors.items():
            n_runs = len(weights.weights.stops)
            if axis in factors:
                n_runs += len(factors[axis].weights.stops)
                weights = product(factors[axis], weights)
            self._regions.take(1 + n_runs // 8)
            factors[axis] = weights
        return ProductTerm(one.coefficient * other.coefficient, factors)

    def _take_terms(self, n_terms: int) -> None:
        if n_terms > MAX_TERMS:
            raise CapacityError(f"A query has at most {MAX_TERMS:,} terms. Ask its parts.")
        self._regions.take(n_terms)

    def _checked(self, terms: tuple[ProductTerm, ...]) -> tuple[ProductTerm, ...]:
        self._take_terms(len(terms))
        return terms
