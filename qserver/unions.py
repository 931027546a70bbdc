"""Unions of boxes as disjoint boxes, so that a union is a sum of product terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qserver.errors import CapacityError
from qserver.query import MAX_TERMS

# A box: per axis the allowed values as the set bits of an integer; an absent axis allows all.
Box = Mapping[int, int]
# Pairs of boxes compared, and bits of masks held in all: some seconds, some tens of megabytes.
MAX_COMPARISONS = 1 << 22
MAX_MASK_BITS = 1 << 28
_WORD = 1 << 13


def disjoint_union(boxes: Sequence[Box], sizes: Sequence[int]) -> list[dict[int, int]]:
    """Disjoint boxes that cover exactly the cells of at least one of `boxes`.

    Raises:
        CapacityError: more boxes than a query may have terms, or too much work to find them.
    """
    axes = {axis for box in boxes for axis in box}
    bits = sum(sizes[axis] for axis in axes)
    check_mask_bits(bits * len(boxes))
    left = MAX_COMPARISONS // (1 + bits // _WORD)
    covered: list[dict[int, int]] = []
    for box in boxes:
        rest = [dict(box)]
        for earlier in tuple(covered):
            left -= len(rest)
            rest = [part for piece in rest for part in subtract(piece, earlier, sizes)]
            if len(rest) + len(covered) > MAX_TERMS or left < 0:
                raise CapacityError(
                    f"The union needs more than {MAX_TERMS:,} disjoint terms, or too many steps "
                    "to find them. Ask its parts."
                )
        covered.extend(rest)
    return covered


def check_mask_bits(n_bits: int) -> None:
    """Raise CapacityError if masks of `n_bits` bits in all would take too much memory."""
    if n_bits > MAX_MASK_BITS:
        raise CapacityError("The union is of too many sets of too many values. Ask its parts.")


def subtract(box: Box, other: Box, sizes: Sequence[int]) -> list[dict[int, int]]:
    """Disjoint boxes that cover the cells of `box` outside `other`.

    An axis whose mask is 0 makes a box empty.
    """
    if any(_mask(box, a, sizes) & m == 0 for a, m in other.items()):
        return [dict(box)]
    parts = []
    inside = dict(box)
    for axis, mask in other.items():
        mine = _mask(inside, axis, sizes)
        outside = mine & ~mask
        if outside:
            parts.append({**inside, axis: outside})
        inside[axis] = mine & mask
    return parts


def _mask(box: Box, axis: int, sizes: Sequence[int]) -> int:
    return box.get(axis, (1 << sizes[axis]) - 1)
