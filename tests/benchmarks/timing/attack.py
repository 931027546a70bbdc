"""An attacker who tells from times which of two answers came from which of two datasets.

The attacker knows one half of all pairs and decides on the other half, then the other way round. On
the half that is known every rule below is tried by folds, and the best of them decides. So no pair
that is decided on was looked at before, and where the times tell nothing half of the guesses are
right: neither fewer nor more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

N_BLOCKS = 10
"""Runs of successive pairs that are known and decided on in turn: a slow drift is in both."""
N_FOLDS = 5
N_BINS = 12
MANY = 10
"""Questions to each dataset of an attacker who adds up what they tell."""

Times = NDArray[np.float64]
"""Shape (pairs, 2, features): of the first dataset's answer, and of the second's."""
Scores = NDArray[np.float64]
"""One per pair, above 0 if the order is likelier to be first, second than second, first."""
Rule = Callable[[Times], Scores]
Learner = Callable[[Times], Rule]


@dataclass(frozen=True)
class Told:
    """How many pairs the attacker told.

    Args:
        share: of the guesses that were right; an undecided pair counts half.
        n: number of guesses.
    """

    share: float
    n: int

    @property
    def standard_error(self) -> float:
        """At most, of the share: that of one half. Both err together where each misleads the other.

        No pair tells of another one.
        """
        n_half = self.n / 2
        return sqrt(max(self.share * (1 - self.share), 0.25 / self.n) / n_half)


def told(scores: Scores) -> Told:
    """How many pairs these scores tell."""
    right = np.where(scores > 0, 1.0, np.where(scores < 0, 0.0, 0.5))
    return Told(float(right.mean()), len(right))


def told_by_many(scores: Scores, *, many: int = MANY) -> Told:
    """How many groups of `many` successive pairs are told by the sums of their scores."""
    n = len(scores) // many
    return told(scores[: n * many].reshape(n, many).sum(axis=1))


def attack(times: Times, *, slot_s: float = 0.0) -> Scores:
    """Scores of all pairs, each by a rule that was learnt from the other half.

    Args:
        times: seconds of every step of every answer, shape (pairs, 2, steps).
        slot_s: the known slot: what a time is beyond whole slots is looked at as well.
    """
    features = np.concatenate([times, times % slot_s], axis=2) if slot_s > 0 else times
    half = np.arange(len(times)) * N_BLOCKS // len(times) % 2
    scores = np.zeros(len(times))
    for here in (0, 1):
        known, asked = features[half != here], features[half == here]
        scores[half == here] = _best_learner(known)(known)(asked)
    return scores


def _best_learner(known: Times) -> Learner:
    """The learner whose rules tell most of the known pairs, by folds."""
    learners = _learners(known.shape[2])
    return max(learners, key=lambda learn: told(_by_folds(learn, known)).share)


def _by_folds(learn: Learner, known: Times) -> Scores:
    fold = np.arange(len(known)) % N_FOLDS
    scores = np.zeros(len(known))
    for i in range(N_FOLDS):
        scores[fold == i] = learn(known[fold != i])(known[fold == i])
    return scores


def _learners(n_features: int) -> list[Learner]:
    """Rules on all features at once, and on each alone."""
    sets: list[Sequence[int]] = [range(n_features), *([i] for i in range(n_features))]
    kinds = (_linear, _ranked, _binned)
    found = [_on(features, kind) for features in sets for kind in kinds]
    return found + [_on([i], _by_difference) for i in range(n_features)]


def _on(features: Sequence[int], learn: Learner) -> Learner:
    """A learner that sees these features alone."""
    chosen = list(features)

    def learner(known: Times) -> Rule:
        rule = learn(known[:, :, chosen])
        return lambda asked: rule(asked[:, :, chosen])

    return learner


def _linear(known: Times) -> Rule:
    """Fisher's rule on the differences; those beyond the middle 98 percent count no more."""
    found = known[:, 1] - known[:, 0]
    most = np.quantile(np.abs(found), 0.98, axis=0) + 1e-12

    def clipped(pairs: Times) -> Times:
        return np.clip((pairs[:, 1] - pairs[:, 0]) / most, -1, 1)

    near = clipped(known)
    spread = np.cov(near, rowvar=False).reshape(near.shape[1], -1) + 1e-6 * np.eye(near.shape[1])
    weights = np.linalg.solve(spread, near.mean(axis=0))
    return lambda asked: clipped(asked) @ weights


def _ranked(known: Times) -> Rule:
    """The linear rule on ranks among the known times."""
    both = known.reshape(-1, known.shape[2])
    ordered = np.sort(both, axis=0)

    def ranks(pairs: Times) -> Times:
        columns = [
            np.searchsorted(ordered[:, i], pairs[:, :, i]) / len(ordered)
            for i in range(pairs.shape[2])
        ]
        return np.stack(columns, axis=2)

    rule = _linear(ranks(known))
    return lambda asked: rule(ranks(asked))


def _binned(known: Times) -> Rule:
    """Likelihood ratios of single times, by bins with equally many of them; features add up."""
    parts = [_binned_one(known[:, :, i]) for i in range(known.shape[2])]

    def rule(asked: Times) -> Scores:
        total: Scores = np.sum([part(asked[:, :, i]) for i, part in enumerate(parts)], axis=0)
        return total

    return rule


def _binned_one(known: Times) -> Rule:
    edges = np.quantile(known, np.arange(1, N_BINS) / N_BINS)
    first, second = (
        np.bincount(np.searchsorted(edges, known[:, i]), minlength=N_BINS) + 1.0 for i in (0, 1)
    )
    ratio = np.log(second / first)

    def rule(asked: Times) -> Scores:
        found: Scores = ratio[np.searchsorted(edges, asked[:, 1])]
        return found - ratio[np.searchsorted(edges, asked[:, 0])]

    return rule


def _by_difference(known: Times) -> Rule:
    """How much likelier a difference is than its opposite, by the smoothed known ones.

    Only for one feature. It has every rule on the difference, also "the nearer to a slot".
    """
    found = (known[:, 1] - known[:, 0]).ravel()
    middle = np.subtract(*np.quantile(found, [0.75, 0.25]))
    width = max(float(middle) * len(found) ** -0.2, 1e-9)

    def likelihood(at: NDArray[np.float64]) -> Scores:
        far = np.minimum(((at[:, None] - found[None, :]) / width) ** 2 / 2, 700.0)
        near: Scores = np.exp(-far).mean(axis=1) + 1e-3
        return near

    def rule(asked: Times) -> Scores:
        at = (asked[:, 1] - asked[:, 0]).ravel()
        ratio: Scores = np.log(likelihood(at) / likelihood(-at))
        return ratio

    return rule
