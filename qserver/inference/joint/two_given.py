"""The joint posterior of two queries, whose rows may disagree in public.

It is that of one query (`given`), of both at once: their estimates minus the errors W_1 and W_2,
given all known sums of errors. So any combination of the two has its law from the same points.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.law_of_two import Below, LawOfTwo
from qserver.inference.posterior.by_rows import Together

_ULP = 2.0**-52


@dataclass(frozen=True, eq=False)
class TwoGiven:
    """Two queries given the public disagreements, arrays of shape (2,).

    Args:
        linear: unbiased estimates of both rows.
        allowance: bounds on the errors that lattice and floats add, >= 0.
        units: each query over its row.
        known: what is known of both errors.
    """

    linear: FloatArray
    allowance: FloatArray
    units: FloatArray
    known: Reduced

    @classmethod
    def of(cls, found: Together, units: tuple[Fraction, Fraction]) -> TwoGiven:
        """The posterior of two queries, by both their rows.

        Args:
            units: each query over its row.
        """
        known = found.sums.reduced()
        linear = np.array([one.estimate for one in found.estimates])
        allowance = np.array([one.allowance for one in found.estimates])
        return cls(linear, allowance, np.array([float(unit) for unit in units]), known)

    def law(self, towards: FloatArray, *, size: int) -> LawOfTwo:
        """The law of the errors, from so many points per shift.

        Args:
            towards: combinations of the queries near which it is wanted, shape (any, 2).
        """
        return LawOfTwo(self.known, towards * self.units, size)

    def above_zero(self, combination: FloatArray, law: LawOfTwo) -> Below:
        """P(combination @ queries > 0), bounded from above; numerical errors and the allowances
        add to it."""
        on_rows = combination * self.units
        known = self.linear - self.known.shift
        sizes = np.abs(on_rows)
        room = sizes @ (self.allowance + 4.0 * _ULP * (np.abs(self.linear) + np.abs(known)))
        return law.below(on_rows, float(on_rows @ known + room))

    def mean(self, combination: FloatArray, law: LawOfTwo) -> float:
        """The posterior mean of combination @ queries."""
        on_rows = combination * self.units
        return float(on_rows @ (self.linear - self.known.shift)) - law.mean(on_rows)
