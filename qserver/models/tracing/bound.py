"""The structural bound: the power of tracing attacks from a model's structure alone.

Murakonda, Shokri and Theodorakopoulos bound the likelihood-ratio tracing attack on a model learnt
without noise. The bound uses only public facts: the model's complexity C and the size n of its
training set. It is asymptotic: the log-likelihood ratio is taken to be normal with means +-C/2n and
variance C/n, which holds if every parameter is learnt from many records. It is not a guarantee; the
cap by differential privacy is one (`cap`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from qserver.errors import InputError

Rates = NDArray[np.float64]


class TradeOff(Protocol):
    """A bound on the power of every test of membership, by its error."""

    def power(self, fpr: ArrayLike) -> Rates:
        """The largest possible share of true positives at these shares of false positives."""
        ...


def checked_rates(fpr: ArrayLike) -> Rates:
    """`fpr` as floats; InputError unless all lie in [0, 1]."""
    rates = np.asarray(fpr, dtype=np.float64)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise InputError("fpr", "lie in [0, 1]")
    return rates


@dataclass(frozen=True)
class TracingBound:
    """The structural bound: z_alpha + z_(1-beta) = sqrt(C/n), less with a finite reference set.

    Args:
        complexity: C, the number of independent learnt numbers, > 0.
        n: number of records in the training set, > 0.
        n_reference: number of records of the population that the attacker has, > 0; infinite for
            one who knows the population.

    Raises:
        InputError: a value is out of range.

    References:
        Murakonda et al., theorem 1. With a finite reference set the compared estimates differ by
        the errors of both, variances C/n + C/n_reference, while the means stay C/n apart.
    """

    complexity: float
    n: float
    n_reference: float = inf

    def __post_init__(self) -> None:
        for name in ("complexity", "n"):
            if not 0 < getattr(self, name) < inf:
                raise InputError(name, "be a finite number > 0", getattr(self, name))
        if not self.n_reference > 0:
            raise InputError("n_reference", "be a number > 0", self.n_reference)

    @property
    def separation(self) -> float:
        """Distance of the two means of the log-likelihood ratio, in standard deviations."""
        return sqrt(self.complexity / self.n) / sqrt(1 + self.n / self.n_reference)

    def power(self, fpr: ArrayLike) -> Rates:
        """beta = Phi(separation - z_alpha)."""
        rates: Rates = ndtr(self.separation + ndtri(checked_rates(fpr)))
        return rates

    @property
    def auc(self) -> float:
        """Phi(separation / sqrt 2)."""
        return float(ndtr(self.separation / sqrt(2)))


def area_under(trade_off: TradeOff, *, steps: int = 4001) -> float:
    """The area under a bound's curve, to about 1e-6.

    Uses the trapezoid rule in z = Phi^-1(fpr), in which the curves are smooth except for kinks.
    """
    z = np.linspace(-9.0, 9.0, steps)
    density = np.exp(-z * z / 2) / sqrt(2 * np.pi)
    return float(np.trapezoid(trade_off.power(ndtr(z)) * density, z))
