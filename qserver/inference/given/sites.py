"""Normal factors in place of those of the errors, by expectation propagation (Minka 2001).

Given the known sums, the density of the errors is a product of factors exp(-abs(u_i)), or of those
of sums of Laplace variables, of which each is replaced by a normal one, its site. A site is chosen
so that the normal law, with the site put back to the error's own factor, keeps the mean and the
variance of u_i. Without known sums all sites
have mean 0 and variance 2, and the normal law is that of least variance.
"""

from __future__ import annotations

import numpy as np

from qserver.inference.given.cavity import NARROWEST, Cavity
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.normal import ByBasis, BySums, GivenSums, NormalLaw, Sites, cavity
from qserver.inference.given.variances import LAPLACE_VARIANCE

_SWEEPS = 6
_DAMPING = 0.9


def normal_law(known: Reduced) -> NormalLaw:
    """The normal law of the errors given the known sums. It depends on nothing else."""
    if known.normal is not None:
        return known.normal
    shape = (*known.values.shape[:-1], len(known.counts))
    sites = Sites(np.zeros(shape), np.full(shape, LAPLACE_VARIANCE))
    for _ in range(_SWEEPS if known.n_disagreements else 0):
        given = _given(known, sites)
        sites = _moved(sites, cavity(given.mean, given.diagonal, sites, known.counts))
    return NormalLaw(_given(known, sites), sites, known.counts)


def _given(known: Reduced, sites: Sites) -> GivenSums:
    """By whichever matrix is smaller: that of the known sums, or that of the basis."""
    k, r = known.mixing.shape
    if r < k and known.values.ndim == 1:
        return ByBasis(known.mixing, known.values, sites)
    return BySums(known.sums, known.values, sites)


def _moved(sites: Sites, cavity: Cavity) -> Sites:
    """The sites that keep the moments of each cavity times the error's density, nearly."""
    mean, variance = cavity.with_factors()
    precision = np.maximum(1.0 / variance - 1.0 / cavity.variance, NARROWEST)
    shift = mean / variance - cavity.mean / cavity.variance
    old = 1.0 / sites.variances
    new = old + _DAMPING * (precision - old)
    shifted = sites.means * old + _DAMPING * (shift - sites.means * old)
    return Sites(shifted / new, 1.0 / new)
