"""Data that arrive over time: a question counts the sealed periods alone, those with their data.

A question is clipped once, where it comes in: q becomes q * 1[t < w] for the watermark w, the
number of sealed periods. What is left is an ordinary query whose true answer never changes, so
keys, caches, jobs and estimates need to know nothing of w. What was asked at an earlier watermark
is another query, and its answer stays true.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qserver.errors import InputError, QueryError
from qserver.query.calendar.ends import index_of_period, last_sealed
from qserver.query.calendar.units import PeriodNotSealedError
from qserver.query.domain import Attribute, Domain
from qserver.query.linear import LinearQuery, Term, linear_query
from qserver.query.weights import ScaledWeights, Weights, interval, product


def sealed_domain(domain: Domain, name: str, n_sealed: int) -> Domain:
    """The domain as it is while the first `n_sealed` periods of an attribute have their data."""
    # Domains of which different things are said to people are equal.
    said: tuple[object, ...] = (domain.description, domain.licence, domain.within)
    said += tuple(a.description for a in domain.attributes)
    return _sealed_domain(domain, name, n_sealed, said)


@lru_cache(maxsize=64)
def _sealed_domain(
    domain: Domain,
    name: str,
    n_sealed: int,
    said: tuple[object, ...],  # noqa: ARG001 - a part of the key
) -> Domain:
    return replace(
        domain,
        attributes=tuple(
            replace(a, sealed=n_sealed) if a.name == name else a for a in domain.attributes
        ),
    )


def as_of(domain: Domain, period: str) -> Domain:
    """The domain as it was when `period` was the last sealed one.

    Raises:
        InputError: there is no such period, or data do not arrive over time.
        PeriodNotSealedError: it is not sealed yet.
    """
    attribute = growing(domain)
    if attribute is None:
        raise InputError("as_of", "be left out", hint="The data of this dataset do not grow.")
    try:
        at = index_of_period(attribute, period, name="as_of")
    except QueryError as exc:
        # It stands beside the question.
        raise InputError("as_of", exc.condition, period, hint=exc.hint) from exc
    return sealed_domain(domain, attribute.name, at + 1)


def growing(domain: Domain) -> Attribute | None:
    """The attribute whose periods are sealed one after the other, or None."""
    return next((a for a in domain.attributes if a.sealed is not None), None)


def clipped(query: LinearQuery, domain: Domain, *, name: str) -> LinearQuery:
    """The query on the sealed periods alone; the same object where data do not arrive over time.

    Args:
        name: where the question stands in the request, for messages.

    Raises:
        PeriodNotSealedError: no period is sealed yet.
    """
    attribute = growing(domain)
    if attribute is None:
        return query
    n, axis = attribute.n_sealed, domain.names.index(attribute.name)
    if n == 0:
        raise PeriodNotSealedError(name)
    if all(_is_inside(term, axis, n) for term in query.terms):
        found = query
    else:
        found = on_periods(query, axis, range(n))
    return replace(found, as_of=last_sealed(attribute))


def on_periods(query: LinearQuery, axis: int, periods: range) -> LinearQuery:
    """The query on some periods alone, 0 on the others."""
    inside = interval(query.sizes[axis], periods.start, periods.stop)
    return linear_query(
        query.sizes, [(t.coefficient, _within(t, axis, inside)) for t in query.terms]
    )


def periods_of(query: LinearQuery, axis: int) -> list[range]:
    """The runs of periods in which a query weighs some cell; public, as the query is."""
    size, runs = query.sizes[axis], list[range]()
    weighed = np.zeros(size, dtype=bool)
    for term in query.terms:
        weights = term.by_axis.get(axis)
        weighed |= True if weights is None else weights.dense != 0
    for i in (i for i in range(size) if weighed[i]):
        if runs and runs[-1].stop == i:
            runs[-1] = range(runs[-1].start, i + 1)
        else:
            runs.append(range(i, i + 1))
    return runs


def _is_inside(term: Term, axis: int, n: int) -> bool:
    """Whether a term weighs no period from the n-th on."""
    weights = term.by_axis.get(axis)
    return weights is not None and all(
        value == 0 for stop, value in zip(weights.stops, weights.values, strict=True) if stop > n
    )


def _within(term: Term, axis: int, inside: Weights) -> dict[int, ScaledWeights | Weights]:
    """The weights of a term by axis, those of the periods being 0 outside."""
    found: dict[int, ScaledWeights | Weights] = dict(term.by_axis)
    own = term.by_axis.get(axis)
    one = Fraction(1)
    if own is None:
        return {**found, axis: inside}
    return {**found, axis: product(ScaledWeights(one, own), ScaledWeights(one, inside))}
