"""Remarks on records with a missing value, if the domain counts them as one more value.

A condition such as `sex <> 'x'` keeps records without a known sex; most databases would drop them.
So the asker is told. Domain and question alone decide that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery, Term, linear_query
from qserver.query.weights import Weights


def kept_missing(query: LinearQuery, domain: Domain) -> Iterator[int]:
    """Attributes of a query whose missing values count with others."""
    for axis in query.scope:
        attribute = domain.attributes[axis]
        if attribute.missing == "other" and _keeps(query, axis, attribute.n_regular):
            yield axis


def remarks_on_missing(domain: Domain, axes: Iterable[int]) -> tuple[str, ...]:
    """One sentence for each attribute whose missing values count."""
    attributes = [domain.attributes[axis] for axis in sorted(set(axes))]
    return tuple(
        f"Records without a value of `{one.name}` count, too, as `{one.other}`: the question does "
        "not leave them out."
        for one in attributes
    )


def _keeps(query: LinearQuery, axis: int, missing: int) -> bool:
    if all(_is_only(term.by_axis.get(axis), missing) for term in query.terms):
        return False  # the missing ones are what is asked for
    if all(_is_without(term.by_axis.get(axis), missing) for term in query.terms):
        return False
    among = linear_query(query.sizes, (_at_value(term, axis, missing) for term in query.terms))
    return not among.is_zero


def _at_value(term: Term, axis: int, value: int) -> tuple[Fraction, dict[int, Weights]]:
    """A term on the records with one value of an attribute."""
    others = dict(term.by_axis)
    own = others.pop(axis, None)
    return term.coefficient * (1 if own is None else own.at(value)), others


def _is_only(weights: Weights | None, value: int) -> bool:
    """Whether only the last value has weight."""
    return weights is not None and weights.stops[:-1] == (value,) and weights.values[0] == 0


def _is_without(weights: Weights | None, value: int) -> bool:
    """Whether weights are 0 at a value."""
    return weights is not None and weights.at(value) == 0
