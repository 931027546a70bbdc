"""The ROC curve of a score that separates members from others, its area, and standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor, inf, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qserver.errors import InputError
from qserver.models.tracing.bound import Rates, checked_rates

Scores = NDArray[np.float64]
_LEAST = 2


@dataclass(frozen=True)
class SampleEstimate:
    """A value measured on a sample of records, with its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Roc:
    """The ROC curve of a score.

    Args:
        members: scores of members, higher for likelier ones; -inf is allowed, NaN is not.
        others: scores of records that are not members.

    Raises:
        InputError: fewer than two scores on a side, or a NaN.
    """

    members: Scores
    others: Scores

    def __post_init__(self) -> None:
        for name in ("members", "others"):
            scores = np.asarray(getattr(self, name), dtype=np.float64)
            if scores.ndim != 1 or len(scores) < _LEAST or np.isnan(scores).any():
                raise InputError(name, "be at least two scores, none NaN")
            object.__setattr__(self, name, scores)

    @cached_property
    def _sorted_members(self) -> Scores:
        return np.sort(self.members)

    def power(self, fpr: ArrayLike) -> Rates:
        """Share of members found with at most these shares of others; thresholds are not random."""
        rates = checked_rates(fpr)
        thresholds = [threshold_at(self.others, float(rate)) for rate in rates.ravel()]
        found = [_share_above(self._sorted_members, t) for t in thresholds]
        return np.array(found).reshape(rates.shape)

    @property
    def auc(self) -> SampleEstimate:
        """P(a member scores above another record) + half the ties, with DeLong's standard error.

        The standard error is for the sample of records, with this model fixed. For the variation
        over training sets repeat the whole attack.

        References:
            DeLong, DeLong and Clarke-Pearson (1988).
        """
        places = self._placements
        return SampleEstimate(float(places.members.mean()), places.standard_error)

    def auc_gain_over(self, other: Roc) -> SampleEstimate:
        """This area less that of another score of the same records in the same order.

        The standard error is that of the difference, computed record by record.

        Raises:
            InputError: the numbers of records differ.
        """
        if (len(self.members), len(self.others)) != (len(other.members), len(other.others)):
            raise InputError("other", "score the same records")
        ours, theirs = self._placements, other._placements
        change = _Placements(ours.members - theirs.members, ours.others - theirs.others)
        return SampleEstimate(float(change.members.mean()), change.standard_error)

    @cached_property
    def _placements(self) -> _Placements:
        members, others = _standard(self.members), _standard(self.others)
        return _Placements(_share_below(members, others), 1 - _share_below(others, members))


@dataclass(frozen=True, eq=False)
class _Placements:
    """Per member, the share of others below it; per other record, the share of members above."""

    members: Scores
    others: Scores

    @property
    def standard_error(self) -> float:
        """Standard error of the mean of either."""
        variance = sum(float(s.var(ddof=1)) / len(s) for s in (self.members, self.others))
        return sqrt(variance)


def threshold_at(others: Scores, fpr: float) -> float:
    """The least threshold with at most a share `fpr` of `others` above it; -inf selects all.

    Args:
        others: scores of records that are not members, such as those of the reference set.
        fpr: in [0, 1].
    """
    # A share such as 0.29 of 100 records is exactly 29, despite float rounding.
    n_allowed = floor(fpr * len(others) + 1e-9)
    if n_allowed >= len(others):
        return -inf
    place = len(others) - n_allowed - 1
    return float(np.partition(others, place)[place])


def _share_above(ascending: Scores, threshold: float) -> float:
    if threshold == -inf:
        return 1.0
    n_below = int(np.searchsorted(ascending, threshold, side="right"))
    return (len(ascending) - n_below) / len(ascending)


def _share_below(scores: Scores, others: Scores) -> Scores:
    """For each of `scores`, the share of `others` below it; ties count half."""
    ascending = np.sort(others)
    low = np.searchsorted(ascending, scores, side="left")
    high = np.searchsorted(ascending, scores, side="right")
    shares: Scores = (low + high) / (2 * len(others))
    return shares


def _standard(scores: Scores) -> Scores:
    """Rounded scores: sums of the same terms in different order become ties."""
    return np.round(scores, 12)
