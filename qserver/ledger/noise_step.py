"""The lattice step of a row's answers.

Answers lie on multiples of the step. So the step must divide every possible truth: a coarser one
would release the truth's residue without noise. It is the row's unit over a power of two, fine in
comparison with the least noise that the limit allows, and every refinement keeps it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from qserver.errors import RequirementError
from qserver.records.charge import NANO


def lattice_step(unit: Fraction, *, limit_nano: int, records_per_person: int) -> Fraction:
    """Step g = unit / 2^j, j >= 0 the least with g <= 2^-20 * records_per_person / limit.

    Public: it is a function of the row and the population's limit, never of data.

    Args:
        unit: a common divisor of the row's cell values, in records, > 0.
        limit_nano: what the limit at the row's first measurement pays for at most, > 0: the limit
            itself in 1e-9 epsilon, or what the law of noise says (`sharpest`).
        records_per_person: most records one person owns, >= 1.

    Returns:
        g in records, exact; `unit` is a multiple of it.

    Raises:
        RequirementError: a value is out of range or no exact number.
    """
    if type(unit) is not Fraction or unit <= 0:
        raise RequirementError("unit", "be a Fraction > 0", unit)
    if type(limit_nano) is not int or limit_nano <= 0:
        raise RequirementError("limit_nano", "be an int > 0", limit_nano)
    if type(records_per_person) is not int or records_per_person < 1:
        raise RequirementError("records_per_person", "be an int >= 1", records_per_person)
    # At least 2^20 steps lie in the least noise scale b = records_per_person / limit.
    coarsest = Fraction(records_per_person * NANO, limit_nano << 20)
    # 2^j >= unit / coarsest holds for an integer power just when it holds for the ceiling.
    j = (math.ceil(unit / coarsest) - 1).bit_length()
    return unit / (1 << j)
