"""Bounds on the errors of answers from errors of parameters, by two theorems of the paper.

Both theorems bound the error of one sum-product term of variable elimination: a table that is the
sum over one variable of a product of factors. They use the greatest and the least error of any
factor, so they are wide. The paper shows the lower bound for one constructed instance; the error of
a given network can be less.

The upper bound holds for every value of a term whose factors are parameters, if the network has an
edge. A product of t factors in [0, 1], each off by at most x, is off by at most t x. A variable is
in at most eta tables and has at most d values, so a sum is off by at most eta d x, and
d <= d^kappa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from qserver.models.network.learning.estimation import n_cells
from qserver.models.network.structure import Structure
from qserver.models.network.variable_elimination import width

MAX_WIDTH = 24
"""A product of more than 24 binary variables has more cells than answers may use."""


@dataclass(frozen=True)
class ErrorBounds:
    """The bounds of theorems 4.1 and 4.2 on the error of a sum-product term.

    Args:
        eta: the most edges at an attribute, and one.
        width: width of the order of elimination, at least the treewidth; None above 24.
        values: the most values of an attribute.
        least: least standard deviation of a parameter.
        greatest: greatest standard deviation of a parameter.
        lower: theorem 4.1: sqrt(eta - 1) (1 / values)^(eta - 2) times the least deviation.
        upper: theorem 4.2: 2 eta values^width times the greatest; None where `width` is.
    """

    eta: int
    width: int | None
    values: int
    least: float
    greatest: float
    lower: float
    upper: float | None


def eta(structure: Structure) -> int:
    """The most edges at a variable, plus one."""
    pairs = zip(structure.parents, structure.children, strict=True)
    return max(len(parents) + len(children) for parents, children in pairs) + 1


def error_bounds(structure: Structure, *, least: float, greatest: float, phi: float) -> ErrorBounds:
    """The bounds if the errors of all parameters lie between `least` and `greatest`.

    Args:
        phi: the least parameter.

    References:
        Chowdhury, Rekatsinas and Jha (2020), theorems 4.1 and 4.2.
    """
    n, kappa, values = eta(structure), width(structure, most=MAX_WIDTH), max(structure.sizes)
    lower = sqrt(n - 1) * least * phi ** max(n - 2, 0)
    upper = None if kappa is None else 2 * n * float(values) ** kappa * greatest
    return ErrorBounds(n, kappa, values, least, greatest, lower, upper)


def even_error_bounds(structure: Structure, noise: Sequence[float]) -> ErrorBounds | None:
    """The bounds for learning from noisy tables, times the number of records, without data.

    They are for the network in which all values are equally likely given any parents. Its rows have
    N / rows of N records each, and a parameter of k values is 1/k. To first order in the noise the
    parameter's standard deviation is sqrt(v (1 - 1/k)) rows / N, which is taken for its error.

    Args:
        noise: v per variable: the variance of white noise that would give the differences of its
            family's cells along it, in records squared.

    Returns:
        The bounds, or None if every variable has one value: then no parameter has an error.
    """
    sizes = structure.sizes
    deviations = [
        sqrt(v * (1 - 1 / sizes[i])) * n_cells(structure.parents[i], sizes)
        for i, v in enumerate(noise)
        if sizes[i] > 1
    ]
    if not deviations:
        return None
    least, greatest = min(deviations), max(deviations)
    return error_bounds(structure, least=least, greatest=greatest, phi=1 / max(sizes))
