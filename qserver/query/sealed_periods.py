"""Data that arrive over time: a question counts only sealed periods, which have their data.

A question is clipped once, on arrival: q becomes q * 1[t < w] for the watermark w, the number of
sealed periods. The result is an ordinary query whose true answer never changes, so keys, caches,
jobs and estimates do not depend on w. A question at an earlier watermark is another query, and its
answer stays true.

*The ends of a condition on periods* are labels in order, or days of the calendar.

An end is a label of the attribute or, where its periods are of the calendar, any ISO day, week,
month, quarter or year. A condition must begin where a period begins and end where one ends: the
data are known only by whole periods.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qserver.errors import InputError, QueryError
from qserver.query.calendar import (
    EXAMPLES,
    PeriodNotSealedError,
    Periods,
    Unit,
    first_day,
    last_day,
    number_in,
    number_of,
    text_of,
    unit_of,
    why_none,
)
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery, Term, linear_query
from qserver.query.weights import ScaledWeights, Weights, interval, product


def range_from(attribute: Attribute, end: object, *, name: str, after: bool = False) -> range:
    """Indexes of the periods from `end` on; with `after` without the end's own period.

    Raises:
        QueryError: the end is no label or date, or cuts through a period.
        PeriodNotSealedError: none of them has data yet.
    """
    start = _index(attribute, end, name, after=after)
    check_sealed(attribute, start, end, name=name)
    return range(start, attribute.n_regular)


def range_up_to(attribute: Attribute, end: object, *, name: str, after: bool = False) -> range:
    """Indexes of the periods before `end`; with `after` including the end's own period.

    Raises:
        QueryError: the end is no label or date, or cuts through a period.
        PeriodNotSealedError: the last of them has no data yet. A day after all periods names none.
    """
    stop = _index(attribute, end, name, after=after)
    is_named = stop < attribute.n_regular or attribute.index_of_name(_text(end) or "") is not None
    if is_named and stop:
        check_sealed(attribute, stop - 1, end, name=name)
    return range(stop)


def range_between(attribute: Attribute, low: object, high: object, *, name: str) -> range:
    """Indexes of the periods from `low` to `high`, both included.

    Raises:
        QueryError: an end is none, cuts a period, or the first is later than the last.
        PeriodNotSealedError: an end's own period has no data yet.
    """
    start = range_from(attribute, low, name=f"{name}[0]").start
    stop = range_up_to(attribute, high, name=f"{name}[1]", after=True).stop
    # Two ends that lie both before all periods, or both after them, are in order and hold none.
    if stop <= start and (attribute.periods is None or _begins_later(low, high)):
        raise QueryError(name, "have low <= high", [low, high])
    return range(start, stop)


def range_of_last(attribute: Attribute, n: object, *, name: str) -> range:
    """Indexes of the last `n` sealed periods, or all if fewer.

    Raises:
        QueryError: `n` is no whole number > 0.
        PeriodNotSealedError: no period is sealed yet.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise QueryError(name, "be a whole number > 0", n)
    stop = min(attribute.n_sealed, attribute.n_regular)
    if not stop:
        raise PeriodNotSealedError(name)
    return range(max(0, stop - n), stop)


def index_of_period(attribute: Attribute, value: object, *, name: str) -> int:
    """Index of the period that a label names, or its first day.

    Raises:
        QueryError: none has this name; the message names the periods, or the one that holds a date.
        PeriodNotSealedError: it is not sealed yet.
    """
    text = _text(value)
    index = None if text is None else attribute.index_of_name(text)
    if index is not None:
        check_sealed(attribute, index, value, name=name)
        return index
    if attribute.periods is None or text is None:
        raise _no_label(attribute, value, name)
    found = first_and_last(text)
    if found is None:
        raise _no_end(attribute.periods, value, name)
    every, at = attribute.periods.every, number_of(attribute.periods.every, found[0])
    index = at - attribute.periods.start
    is_first = unit_of(text) == "day" and found[0] == first_day(every, at)
    if is_first and 0 <= index < attribute.periods.count:
        check_sealed(attribute, index, value, name=name)
        return index
    raise QueryError(
        name,
        f"be a period of `{attribute.name}`",
        value,
        hint=_place(attribute.periods, found[0]) or f"Its periods: {attribute.periods.span}.",
    )


def check_sealed(attribute: Attribute, index: int, value: object, *, name: str) -> None:
    """Raise PeriodNotSealedError if the period at `index` is not sealed."""
    if attribute.n_sealed <= index < attribute.size:
        raise PeriodNotSealedError(name, value, last=last_sealed(attribute))


def last_sealed(attribute: Attribute) -> str:
    """The last period that has its data; '' for none."""
    n = attribute.n_sealed
    return attribute.value_names[n - 1] if n else ""


def _index(attribute: Attribute, end: object, name: str, *, after: bool) -> int:
    text = _text(end)
    index = None if text is None else attribute.index_of_name(text)
    if index is not None and index < attribute.n_regular:
        return index + after
    periods = attribute.periods
    if periods is None:
        raise _no_label(attribute, end, name)
    found = None if text is None else first_and_last(text)
    if found is None:
        raise _no_end(periods, end, name)
    day = found[1] if after else found[0]
    at = number_of(periods.every, day) - periods.start
    if not 0 <= at < periods.count:
        # No record lies there, so no period can be cut.
        return 0 if at < 0 else periods.count
    number = periods.start + at
    whole = last_day(periods.every, number) if after else first_day(periods.every, number)
    if day != whole:
        raise QueryError(
            name,
            f"not cut through a period of `{attribute.name}`",
            end,
            hint=f"{_place(periods, day)} Name that {periods.every}, or its "
            f"{'last' if after else 'first'} day.",
        )
    return at + after


def _begins_later(low: object, high: object) -> bool:
    """Whether the first of two ends of the calendar is the later one."""
    first, last = first_and_last(_text(low) or ""), first_and_last(_text(high) or "")
    return first is not None and last is not None and first[0] > last[1]


def _text(value: object) -> str | None:
    """The text of an end; years may come as whole numbers, and Python's dates as they are."""
    if isinstance(value, date):
        return value.isoformat()[:10]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def first_and_last(text: str) -> tuple[date, date] | None:
    """First and last day of an ISO text's period, or None."""
    unit: Unit | None = unit_of(text)
    if unit is None:
        return None
    if unit == "day":
        # Dates far out stand for "always" in many databases.
        try:
            return (date.fromisoformat(text),) * 2
        except ValueError:
            return None
    number = number_in(unit, text)
    return None if number is None else (first_day(unit, number), last_day(unit, number))


def _place(periods: Periods, day: date) -> str:
    """A sentence with the period that holds a day; '' if none."""
    at = number_of(periods.every, day) - periods.start
    if not 0 <= at < periods.count:
        return ""
    held = text_of(periods.every, periods.start + at)
    return f"{day.isoformat()} lies in {held}, {periods.days_of(at)}."


def _no_end(periods: Periods, value: object, name: str) -> QueryError:
    text = _text(value) or ""
    unit = unit_of(text)
    condition = f"be a {periods.every} such as {EXAMPLES[periods.every]}"
    if periods.every != "day":
        condition += f", or a date such as {EXAMPLES['day']}"
    return QueryError(name, condition, value, hint=why_none(unit, text) if unit else "")


def _no_label(attribute: Attribute, value: object, name: str) -> QueryError:
    names = attribute.value_names
    shown = ", ".join(n[:40] for n in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return QueryError(
        name, f"be a label of `{attribute.name}`", value, hint=f"Labels: {shown}{more}."
    )


def sealed_domain(domain: Domain, name: str, n_sealed: int) -> Domain:
    """The domain with the first `n_sealed` periods of an attribute sealed."""
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
    """The domain of the time when `period` was the last sealed one.

    Raises:
        InputError: there is no such period, or no data arrive over time.
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
    """The attribute whose periods are sealed in order, or None."""
    return next((a for a in domain.attributes if a.sealed is not None), None)


def clipped(query: LinearQuery, domain: Domain, *, name: str) -> LinearQuery:
    """The query on sealed periods alone; the same object if no data arrive over time.

    Args:
        name: the question's place in the request, for messages.

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
    """Runs of periods with weight in a query; public, as the query is."""
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
    """Weights of a term by axis, with weight 0 outside the periods."""
    found: dict[int, ScaledWeights | Weights] = dict(term.by_axis)
    own = term.by_axis.get(axis)
    one = Fraction(1)
    if own is None:
        return {**found, axis: inside}
    return {**found, axis: product(ScaledWeights(one, own), ScaledWeights(one, inside))}
