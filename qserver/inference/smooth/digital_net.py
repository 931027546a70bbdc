"""A digital net in base 2, whose points fill every part of a cube about evenly (Sobol', 1967).

Each coordinate comes from a primitive polynomial over two elements and its first direction numbers
(Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections", 2008). Here
are all polynomials of degree up to six. Among later coordinates some pairs are far from even.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

import numpy as np

from qserver.inference.arrays import Places

_FIRST = {
    0b11: (1,),
    0b111: (1, 3),
    0b1011: (1, 3, 1),
    0b1101: (1, 1, 1),
    0b10011: (1, 1, 3, 3),
    0b11001: (1, 3, 5, 13),
    0b100101: (1, 1, 5, 5, 17),
    0b101001: (1, 1, 5, 5, 5),
    0b101111: (1, 1, 7, 11, 19),
    0b110111: (1, 1, 5, 1, 1),
    0b111011: (1, 1, 1, 3, 11),
    0b111101: (1, 3, 5, 5, 31),
    0b1000011: (1, 3, 3, 9, 7, 49),
    0b1011011: (1, 1, 1, 15, 21, 21),
    0b1100001: (1, 3, 1, 13, 27, 49),
    0b1100111: (1, 1, 1, 15, 7, 5),
    0b1101101: (1, 3, 1, 15, 13, 25),
    0b1110011: (1, 1, 5, 5, 19, 61),
}
"""By polynomial, whose bits are its coefficients, the first direction numbers."""
N_COORDINATES = 1 + len(_FIRST)


def net(n_bits: int) -> Places:
    """The coordinates of 2^n_bits points as whole numbers below that, a row each."""
    numbers = np.arange(1 << n_bits)
    of_points = (numbers ^ (numbers >> 1))[:, None] >> np.arange(n_bits) & 1
    rows = [[1] * n_bits, *(_directions(*one, n_bits) for one in _FIRST.items())]
    places = np.array(rows) << np.arange(n_bits)[::-1]
    found = np.bitwise_xor.reduce(places[:, None, :] * of_points, axis=2)
    return np.asarray(found, dtype=np.intp)


def _directions(polynomial: int, first: Sequence[int], n_bits: int) -> list[int]:
    found, degree = list(first[:n_bits]), len(first)
    steps = [i for i in range(1, degree + 1) if polynomial >> (degree - i) & 1]
    for k in range(degree, n_bits):
        found.append(reduce(xor, (found[k - i] << i for i in steps), found[k - degree]))
    return found
