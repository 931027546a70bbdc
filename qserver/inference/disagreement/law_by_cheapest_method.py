"""The law of an error given the public disagreements, by the cheapest sufficient method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.arrays import Places
from qserver.inference.disagreement.known_sums import Reduced, normal_law
from qserver.inference.disagreement.mixture import (
    DROPPED,
    MOST_FEW,
    N_PLACES,
    SIZES,
    STEPS,
    Few,
    by_nodes,
    mixtures,
)
from qserver.inference.disagreement.normal_law_given_sums import NormalLaw
from qserver.inference.disagreement.table_of_law import TableOfLaw, law_on_a_line
from qserver.inference.disagreement.which_errors_are_normal import Parts
from qserver.query.asking.method_and_prior import USUAL_ERROR

ENOUGH: Final = USUAL_ERROR
"""Error of probabilities at which no more points are taken."""


@dataclass(frozen=True)
class _Effort:
    """Effort for a law.

    Args:
        sizes: numbers of points to try in turn.
        left_out: errors count as normal as long as no probability changes by more.
        n_places: of the table.
    """

    sizes: tuple[int, ...]
    left_out: float
    n_places: int


_LEFT_BY_FEW, _ROOM = 1e-4, 6.0
"""Most that is left out where few errors matter, and by how much that may be off: by 5.8 at most of
900 numbers of three tables, where it was a thousandth and less."""
_USUAL = _Effort(SIZES[:-1], 5e-4, N_PLACES)
# Tables of fewer points would nearly always be in vain.
_FINE = _Effort(SIZES[-2:], 3e-4, 281)


_CHANCE = 1e-12
"""Chance that answers of one population are taken to contradict each other."""
_OF_EACH = math.log(8.0 / 3.0)
"""Bound on log E exp(abs(u) / 2), for a sum u of any number of Laplace variables, of variance 2."""


def _agreeing(known: Reduced) -> NormalLaw:
    """The normal law of the errors.

    Raises:
        EvaluationError: the answers contradict each other as noise hardly ever makes them, for
            example those of two populations. A law on points would be far off, and say it is not.
    """
    found = normal_law(known)
    if not (np.abs(found.mean).sum(axis=-1) <= _most_off(len(known.counts))).all():
        raise EvaluationError
    return found


def _most_off(n: int) -> float:
    """Bound on the sum of the sizes of n errors' means given their known sums.

    By Jensen's inequality exp(sum_i abs(E u_i) / 2) is at most E exp(sum_i abs(u_i) / 2) given the
    sums, whose mean over all sums is a product. Markov's inequality then bounds the sum. The normal
    law's means are nearly these.
    """
    return 2.0 * (n * _OF_EACH - math.log(_CHANCE))


def law_given(known: Reduced, *, enough: float = ENOUGH) -> TableOfLaw:
    """The law of W minus its shift, given known sums that bear on it.

    Args:
        enough: sufficient error of probabilities; points are added until it is reached or all are
            used.

    Raises:
        EvaluationError: answers contradict each other, and not all errors follow from one.
    """
    if known.is_on_a_line:
        return law_on_a_line(known)
    normal, effort = _agreeing(known), _FINE if enough < ENOUGH else _USUAL
    (parts,) = Parts.of_several(known, normal)
    tried = _by_few(known, normal, [parts], effort, enough)
    if tried and tried[0].largest_error <= enough:
        return tried[0]
    order, left_out = parts.that_matter(effort.left_out)
    for drawn in mixtures(known, normal, order, effort.sizes):
        tried[len(tried)] = drawn.table(left_out=left_out, n_places=effort.n_places)
        if tried[len(tried) - 1].largest_error <= enough:
            break
    return min(tried.values(), key=lambda law: law.largest_error)


def laws_given(known: Reduced, *, enough: float = ENOUGH) -> list[TableOfLaw]:
    """The laws under several histories that differ only in answers, computed at once.

    Raises:
        EvaluationError: as `law_given`, if the answers of one contradict each other.
    """
    each = [replace(known, values=values, normal=None) for values in known.values]
    if known.is_on_a_line:
        return [law_given(one, enough=enough) for one in each]
    normal, effort = _agreeing(known), _FINE if enough < ENOUGH else _USUAL
    found = _by_few(known, normal, Parts.of_several(known, normal), effort, enough)
    return [
        found[i]
        if i in found and found[i].largest_error <= enough
        else law_given(one, enough=enough)
        for i, one in enumerate(each)
    ]


def _the_few(parts: Parts, effort: _Effort) -> tuple[Places, float]:
    """Errors to keep by nodes, those that matter most first, and what is left out of the others.

    Where more than a few matter a little, those are kept that a lattice would keep.
    """
    order, left = parts.in_order(_LEFT_BY_FEW)
    if len(order) <= MOST_FEW or parts.are_few:
        return order, _ROOM * left
    return parts.in_order(effort.left_out)


def _by_few(
    known: Reduced,
    normal: NormalLaw,
    parts: Sequence[Parts],
    effort: _Effort,
    enough: float,
) -> dict[int, TableOfLaw]:
    """The law by history, if few errors matter."""
    alike = dict[Few, dict[int, float]]()
    for i, one in enumerate(parts):
        order, left = _the_few(one, effort)
        if len(order) <= MOST_FEW:
            few = Few.of(order, one.of_each)
            alike.setdefault(few, {})[i] = left + one.of_rest + DROPPED
    found = dict[int, TableOfLaw]()
    for few, left_out in alike.items():
        for step in STEPS:
            open_ = [i for i in left_out if i not in found or found[i].largest_error > enough]
            if open_:
                mixtures = by_nodes(known, normal, few, np.array(open_), step=step)
                for i, drawn in zip(open_, mixtures, strict=True):
                    found[i] = drawn.table(left_out=left_out[i], n_places=effort.n_places)
    return found
