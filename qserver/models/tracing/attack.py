"""The likelihood-ratio tracing attack on records, and the ROC curve of a score.

The attacker holds the released model and records of the population, and fits the same structure (or
another) to these records. Records that are likelier under the released model are called members.
The outcome depends on the attacked records: on true members it reveals something about them.
Nothing here is written anywhere; see `worker.owner.model_audit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor, inf, prod, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qserver.errors import InputError
from qserver.models.network.network import Network, network_of_counts
from qserver.models.network.structure import Structure
from qserver.models.tracing.bound import Rates, checked_rates

Codes = NDArray[np.integer]
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """A variable and its parents.

    Args:
        child: position of the variable, and so its column of the records.
        parents: positions of its parents.
        sizes: number of values of every variable of the network.
    """

    child: int
    parents: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, structure: Structure, i: int) -> Family:
        """The family of variable `i`."""
        return cls(i, structure.parents[i], structure.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the family's table: sizes of the parents, then of the child."""
        return (*(self.sizes[p] for p in self.parents), self.sizes[self.child])

    def counts(self, records: Codes) -> NDArray[np.float64]:
        """Number of records in each cell of the table."""
        cells = np.bincount(self._cells(records), minlength=prod(self.shape))
        return cells.reshape(self.shape).astype(np.float64)

    def looked_up(self, table: NDArray[np.float64], records: Codes) -> Scores:
        """The entry of `table` for each record."""
        found: Scores = table.ravel()[self._cells(records)]
        return found

    def _cells(self, records: Codes) -> NDArray[np.int64]:
        cells = np.zeros(len(records), dtype=np.int64)
        for axis in (*self.parents, self.child):
            cells = cells * self.sizes[axis] + records[:, axis]
        return cells


def fitted(structure: Structure, records: Codes, *, prior: float = 1.0) -> Network:
    """The network fitted to `records`: counts plus `prior` in every cell, normalised.

    Args:
        structure: the structure of the network.
        records: value indexes, shape (records, variables).
        prior: Dirichlet parameter, > 0; 1 is the paper's.

    Raises:
        InputError: the records have a wrong shape or values out of range, or the prior is invalid.

    References:
        Murakonda et al., equation 4.
    """
    check_prior(prior)
    check_records(structure, records)
    families = (Family.of(structure, i) for i in range(len(structure.sizes)))
    return network_of_counts(structure, [f.counts(records) for f in families], prior=prior)


def check_prior(prior: float) -> None:
    """Raise InputError unless a Dirichlet parameter is above 0 and finite."""
    if not 0 < prior < inf:
        raise InputError("prior", "be a finite number > 0", prior)


def check_records(structure: Structure, records: Codes) -> None:
    """Raise InputError unless `records` are value indexes of the structure's variables."""
    if records.ndim != 2 or records.shape[1] != len(structure.sizes):
        raise InputError("records", f"have {len(structure.sizes)} columns")
    if not np.issubdtype(records.dtype, np.integer):
        raise InputError("records", "be whole numbers")
    if len(records) and (np.any(records < 0) or np.any(records >= np.array(structure.sizes))):
        raise InputError("records", "hold value indexes within the variables' sizes")


@dataclass(frozen=True)
class TracingAttack:
    """The likelihood-ratio test of membership.

    Args:
        released: the attacked model.
        population: the attacker's model of the population, over the same variables; its structure
            may differ. It gives every cell a probability above 0.

    Raises:
        InputError: the variables differ, or the population gives a cell probability 0.

    References:
        Murakonda et al., equation 5, with the sign turned: members score higher.
    """

    released: Network
    population: Network

    def __post_init__(self) -> None:
        ours, theirs = self.released.structure, self.population.structure
        if (ours.names, ours.sizes) != (theirs.names, theirs.sizes):
            raise InputError("population", "have the variables of the released model")
        if any(not table.all() for table in self.population.cpds):
            raise InputError("population", "give every cell a probability above 0")

    def scores(self, records: Codes) -> Scores:
        """log P(x; released) - log P(x; population) of each record; -inf is certainly no member.

        Raises:
            InputError: the records are not value indexes of the variables.
        """
        check_records(self.released.structure, records)
        return log_likelihood(self.released, records) - log_likelihood(self.population, records)


def log_likelihood(network: Network, records: Codes) -> Scores:
    """log P(x) of each record, shape (records,); -inf if the network gives it probability 0."""
    total = np.zeros(len(records))
    with np.errstate(divide="ignore"):
        tables = [np.log(table) for table in network.cpds]
    for i, table in enumerate(tables):
        total += Family.of(network.structure, i).looked_up(table, records)
    return total


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
