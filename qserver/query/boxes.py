"""Unions of boxes as disjoint boxes, so that a union is a sum of product terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qserver.errors import CapacityError
from qserver.query.linear import MAX_TERMS
from qserver.query.weights import ScaledWeights, Weights, from_runs

# A box: per axis the allowed values as the set bits of an integer; an absent axis allows all.
Box = Mapping[int, int]
# Pairs of boxes compared, and bits of masks held in all: some seconds, some tens of megabytes.
MAX_COMPARISONS = 1 << 22
MAX_MASK_BITS = 1 << 28
_WORD = 1 << 13


def disjoint_union(
    boxes: Sequence[Box], sizes: Sequence[int], *, max_comparisons: int | None = None
) -> list[dict[int, int]]:
    """Disjoint boxes that cover exactly the cells of at least one of `boxes`.

    Args:
        max_comparisons: pairs of boxes of small masks that may be compared; 2^22 by default.

    Raises:
        CapacityError: more boxes than a query may have terms, or too much work to find them.
    """
    axes = {axis for box in boxes for axis in box}
    bits = sum(sizes[axis] for axis in axes)
    check_mask_bits(bits * len(boxes))
    allowed = MAX_COMPARISONS if max_comparisons is None else max_comparisons
    left = allowed // (1 + bits // _WORD)
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


def box_weights(box: Box, sizes: Sequence[int]) -> dict[int, ScaledWeights]:
    """The weights, 1 inside and 0 outside, of each axis that the box restricts."""
    return {axis: mask_weights(mask, sizes[axis]) for axis, mask in box.items()}


def mask_weights(mask: int, size: int) -> ScaledWeights:
    """Weights 1 where a bit of `mask` is set, 0 elsewhere."""
    packed = np.frombuffer(mask.to_bytes(-(-size // 8), "little"), dtype=np.uint8)
    dense = np.unpackbits(packed, count=size, bitorder="little")
    stops = np.append(np.flatnonzero(np.diff(dense)) + 1, size)
    return from_runs(stops.tolist(), dense[stops - 1].tolist())


def mask_of(weights: Weights) -> int:
    """The mask of an indicator's ones."""
    bits = np.packbits(weights.dense.astype(np.uint8), bitorder="little")
    return int.from_bytes(bits.tobytes(), "little")
