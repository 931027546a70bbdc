"""Sets of cells as disjoint boxes, such as a WHERE keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from qserver.errors import CapacityError
from qserver.query.boxes import Box, check_mask_bits, disjoint_union
from qserver.query.linear import MAX_TERMS

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

    def take(self, n: int, n_bits: int = 0) -> None:
        """Count `n` steps on masks of `n_bits` bits each."""
        self.steps_left -= n * (1 + n_bits // _WORD)
        if self.steps_left < 0:
            raise CapacityError("The conditions need too many steps to be told apart. Ask parts.")

    def _by_axis(self, boxes: Sequence[Box]) -> list[Box]:
        """The boxes, with those on the same single attribute joined into one."""
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
