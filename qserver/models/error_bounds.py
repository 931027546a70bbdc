"""How errors of parameters reach answers: the two theorems of data-dependent learning.

Both bound the error of one sum-product term of variable elimination. They are stated for the
greatest and the least error of any factor, so they are wide; the lower one is shown in the paper
for an instance made for it, and a network's own error can lie below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.errors import NetworkError
from qserver.models.elimination_order import width
from qserver.models.network import Network
from qserver.models.structure import Structure


@dataclass(frozen=True)
class ErrorBounds:
    """What theorems 4.1 and 4.2 say of the error of a sum-product term, in probability.

    Args:
        lower: sqrt(eta - 1) * d_min * phi_min^(eta - 2).
        upper: 2 * eta * d^kappa * d_max.
    """

    lower: float
    upper: float

    def scale_normalised(self, error: float) -> float:
        """mu = (error - lower) / (upper - lower); below 0 where the error is below the bound.

        Raises:
            NetworkError: both bounds are equal: the two networks are.
        """
        if not self.upper > self.lower:
            raise NetworkError("bounds", "differ")
        return (error - self.lower) / (self.upper - self.lower)


def eta(structure: Structure) -> int:
    """The most edges at a variable, and one."""
    pairs = zip(structure.parents, structure.children, strict=True)
    return max(len(parents) + len(children) for parents, children in pairs) + 1


def error_bounds(truth: Network, released: Network) -> ErrorBounds:
    """The bounds for what was released in place of `truth`, from their parameters' differences.

    kappa is the width of the least-fill order, which answers use; d the largest number of values.

    References:
        Chowdhury, Rekatsinas and Jha (2020), theorems 4.1 and 4.2.
    """
    structure = truth.structure
    if released.structure != structure:
        raise NetworkError("released", "have the structure of the truth")
    pairs = zip(truth.cpds, released.cpds, strict=True)
    errors = np.concatenate([np.abs(a - b).ravel() for a, b in pairs])
    least = min(float(cpd.min()) for cpd in truth.cpds)
    n = eta(structure)
    lower = (n - 1) ** 0.5 * float(errors.min()) * least ** max(n - 2, 0)
    upper = 2 * n * max(structure.sizes) ** width(structure) * float(errors.max())
    return ErrorBounds(lower, upper)
