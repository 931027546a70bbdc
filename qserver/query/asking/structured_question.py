"""Structured questions, as JSON has them, to linear queries.

A question is `{"where": {...}}`, `{"any": [{...}, ...]}` (records that match at least one), or
`{"terms": [{"coefficient": 2, "where": {...}}, ...]}`. Conditions are about recorded values, after
the domain's rules for outside and missing values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction

from qserver.errors import QueryError
from qserver.query.class_grid import box_weights, check_mask_bits, disjoint_union, mask_of
from qserver.query.domain import Attribute, Domain, bins_text, decimal_text
from qserver.query.exact_numbers import exact_number
from qserver.query.labels import Level, code_text
from qserver.query.linear_query import (
    MAX_TERMS,
    LinearQuery,
    check_n_factors,
    checked_span,
    linear_query,
)
from qserver.query.sealed_periods import (
    index_of_period,
    range_between,
    range_from,
    range_of_last,
    range_up_to,
)
from qserver.query.weights import ScaledWeights, from_points, from_runs, interval, product


def value_range(
    attribute: Attribute,
    low: Fraction | None,
    high: Fraction | None,
    *,
    name: str,
    closed: bool = False,
) -> range:
    """Bins with low <= value < high, or value <= high if `closed` (whole numbers).

    Values beyond the outer edges match nothing: none is recorded there.

    Raises:
        QueryError: an end cuts through a bin; the message gives the nearest two that do not.
    """
    whole = attribute.kind == "integer"
    first, last = attribute.edges[0], attribute.edges[-1]
    start = first if low is None else Fraction(-(-low // 1)) if whole else low
    stop = last if high is None else _open_end(high, whole=whole, closed=closed)
    start, stop = min(max(start, first), last), min(max(stop, first), last)
    if stop <= start:
        return range(0)
    inner = range(bisect_left(attribute.edges, start), bisect_right(attribute.edges, stop) - 1)
    outer = range(bisect_right(attribute.edges, start) - 1, bisect_left(attribute.edges, stop))
    if inner != outer:
        raise QueryError(
            name,
            bins_text(attribute),
            hint=_nearest(attribute, inner, outer),
        )
    return inner


def one_value(attribute: Attribute, value: Fraction, *, name: str) -> int:
    """Index of the bin that holds `value` and no other value.

    Raises:
        QueryError: the value lies outside the edges, or shares its bin with others.
    """
    index = attribute.bin_of(value)
    if index is None or (attribute.kind == "integer" and value.denominator != 1):
        ends = f"{decimal_text(attribute.edges[0])} up to {decimal_text(attribute.edges[-1])}"
        raise QueryError(
            name,
            f"be a value of `{attribute.name}` ({ends}, the end excluded)",
            decimal_text(value),
        )
    low, high = attribute.edges[index], attribute.edges[index + 1]
    if attribute.kind == "integer" and high == low + 1:
        return index
    raise QueryError(
        name,
        bins_text(attribute),
        hint=f"Its bin is {_shown(attribute, range(index, index + 1))}.",
    )


def _open_end(high: Fraction, *, whole: bool, closed: bool) -> Fraction:
    if not whole:
        return high
    return Fraction(high // 1 + 1) if closed else Fraction(-(-high // 1))


def _nearest(attribute: Attribute, inner: range, outer: range) -> str:
    inside = f" and {_shown(attribute, inner)}" if len(inner) > 0 else ""
    return f"The nearest that fit: {_shown(attribute, outer)}{inside}."


def _shown(attribute: Attribute, bins: range) -> str:
    low, high = attribute.edges[bins.start], attribute.edges[bins.stop]
    end = high - 1 if attribute.kind == "integer" else high
    return f'{{"between": [{_json_text(low)}, {_json_text(end)}]}}'


def _json_text(value: Fraction) -> str:
    text = decimal_text(value)
    return f'"{text}"' if "/" in text else text


def attribute_of(level: Level, attribute: Attribute) -> Attribute:
    """The level as an attribute with its groups as labels, to read a condition.

    Args:
        attribute: the one whose labels it joins.
    """
    return Attribute(
        name=level.name,
        kind="labels",
        labels=level.groups,
        outside="other" if attribute.has_other else "drop",
        missing=attribute.missing,
        other=attribute.other,
    )


def spread(groups: ScaledWeights, level: Level, attribute: Attribute) -> ScaledWeights:
    """Weights of labels from those of their groups; `other` keeps its own."""
    of_groups = groups.weights.dense
    points = {i: int(of_groups[group]) for i, group in enumerate(level.group_of)}
    if attribute.has_other:
        points[attribute.n_regular] = int(of_groups[len(level.groups)])
    found = from_points(attribute.size, points)
    return ScaledWeights(groups.factor * found.factor, found.weights)


MAX_DEPTH = 32
_FORMS = "`where`, `any` or `terms`"
_OPERATORS = ("between", "at_least", "below", "last", "not", "weights")


def parse_query(document: object, domain: Domain, *, name: str = "query") -> LinearQuery:
    """The linear query of a structured question.

    Args:
        document: the question, parsed from JSON; numbers may be int, float, Decimal or text.
        domain: the public domain.
        name: the question's place in the request, for messages.

    Raises:
        QueryError: it is not a question on this domain; the message names the place.
        CapacityError: it has too many terms.
    """
    body = _mapping(document, name)
    if len(body) != 1 or not set(body) <= {"where", "any", "terms"}:
        raise QueryError(name, f"be an object with exactly one of {_FORMS}", _keys(body))
    if "where" in body:
        weights = _where(body["where"], domain, f"{name}.where")
        return _sum([(Fraction(1), weights)], domain, name)
    if "any" in body:
        return _any(body["any"], domain, f"{name}.any")
    return _terms(body["terms"], domain, f"{name}.terms")


def _terms(document: object, domain: Domain, name: str) -> LinearQuery:
    terms = []
    n_factors = 0
    for i, item in enumerate(_list(document, name)):
        place = f"{name}[{i}]"
        body = _mapping(item, place)
        if not set(body) <= {"coefficient", "where"}:
            raise QueryError(place, "have only `coefficient` and `where`", _keys(body))
        coefficient = exact_number(body.get("coefficient", 1), f"{place}.coefficient")
        weights = _where(body.get("where", {}), domain, f"{place}.where")
        n_factors += len(weights)
        check_n_factors(n_factors)
        terms.append((coefficient, weights))
    return _sum(terms, domain, name)


def _sum(
    terms: Sequence[tuple[Fraction, Mapping[int, ScaledWeights]]], domain: Domain, name: str
) -> LinearQuery:
    try:
        return checked_span(linear_query(domain.sizes, terms))
    except QueryError as exc:
        raise exc.under(name) from exc


def _any(document: object, domain: Domain, name: str) -> LinearQuery:
    boxes = []
    n_bits = 0
    for i, item in enumerate(_list(document, name)):
        box = {}
        for axis, scaled in _where(item, domain, f"{name}[{i}]").items():
            if not (scaled.weights.is_indicator and scaled.factor in (0, 1)):
                raise QueryError(f"{name}[{i}]", "have no `weights`: a union is of sets of records")
            n_bits += scaled.weights.size
            check_mask_bits(n_bits)
            box[axis] = mask_of(scaled.weights)
        boxes.append(box)
    disjoint = disjoint_union(boxes, domain.sizes)
    return _sum([(Fraction(1), box_weights(b, domain.sizes)) for b in disjoint], domain, name)


def _where(document: object, domain: Domain, name: str) -> dict[int, ScaledWeights]:
    weights: dict[int, ScaledWeights] = {}
    for key, condition in _mapping(document, name).items():
        axis, found = _condition(key, condition, domain, f"{name}.{key}")
        # A level and its labels may both be named.
        weights[axis] = product(weights[axis], found) if axis in weights else found
    return weights


def _condition(key: str, condition: object, domain: Domain, name: str) -> tuple[int, ScaledWeights]:
    """The axis of an attribute or level, and the weights of the attribute's values."""
    if (level := domain.level(key)) is not None:
        attribute = domain.attributes[level[0]]
        groups = condition_weights(condition, attribute_of(level[1], attribute), name=name)
        return level[0], spread(groups, level[1], attribute)
    axis = domain.axis(key)
    if axis is None:
        names = (*domain.names, *domain.level_names)
        raise QueryError(
            name,
            "name an attribute of the dataset",
            hint="Attributes: " + _listed(names) + ".",
        )
    return axis, condition_weights(condition, domain.attributes[axis], name=name)


def condition_weights(
    condition: object, attribute: Attribute, *, name: str, depth: int = 0
) -> ScaledWeights:
    """Weights of the values of `attribute` under one condition; 0 or 1, except for `weights`."""
    if depth > MAX_DEPTH:
        raise QueryError(name, f"be nested at most {MAX_DEPTH} deep")
    if isinstance(condition, Mapping):
        return _operator(condition, attribute, name, depth)
    if isinstance(condition, list | tuple):
        chosen = (_index(item, attribute, f"{name}[{i}]") for i, item in enumerate(condition))
        return from_points(attribute.size, dict.fromkeys(chosen, 1))
    return from_points(attribute.size, {_index(condition, attribute, name): 1})


def _operator(
    condition: Mapping[str, object], attribute: Attribute, name: str, depth: int
) -> ScaledWeights:
    if len(condition) != 1 or not set(condition) <= set(_OPERATORS):
        choices = ", ".join(f"`{o}`" for o in _OPERATORS)
        raise QueryError(name, f"be a value, a list, or an object with one of {choices}")
    operator, operand = next(iter(condition.items()))
    place = f"{name}.{operator}"
    if operator == "not":
        inner = condition_weights(operand, attribute, name=place, depth=depth + 1)
        values = [inner.factor * w for w in inner.weights.values]
        if not set(values) <= {0, 1}:
            raise QueryError(place, "hold no `weights`")
        return from_runs(inner.weights.stops, [1 - v for v in values])
    if operator == "weights":
        return _weighted(operand, attribute, place)
    bins = _range(operator, operand, attribute, place)
    return ScaledWeights(Fraction(1), interval(attribute.size, bins.start, bins.stop))


def _range(operator: str, operand: object, attribute: Attribute, name: str) -> range:
    if operator == "last" and not attribute.is_period:
        raise QueryError(name, f"be used on periods; `{attribute.name}` has none")
    if attribute.kind == "labels":
        raise QueryError(
            name,
            f"be used on numbers, dates and periods; `{attribute.name}` has labels without order",
        )
    ends = _list(operand, name) if operator == "between" else []
    if operator == "between" and len(ends) != 2:
        what = {"period": "periods", "date": "dates"}.get(attribute.kind, "numbers")
        raise QueryError(name, f"be a list of two {what} [low, high]", operand)
    if attribute.is_timed:
        return _period_range(operator, operand, attribute, name)
    low = high = None
    if operator == "between":
        low, high = exact_number(ends[0], f"{name}[0]"), exact_number(ends[1], f"{name}[1]")
        if low > high:
            raise QueryError(name, "have low <= high", operand)
    elif operator == "at_least":
        low = exact_number(operand, name)
    else:
        high = exact_number(operand, name)
    # Both ends of `between` are included for whole numbers; `below` never includes its end.
    closed = operator == "between" and attribute.kind == "integer"
    return value_range(attribute, low, high, name=name, closed=closed)


def _period_range(operator: str, operand: object, attribute: Attribute, name: str) -> range:
    """Both ends of `between` are included; the end of `below` is not."""
    if operator == "between":
        low, high = _list(operand, name)
        return range_between(attribute, low, high, name=name)
    if operator == "last":
        return range_of_last(attribute, operand, name=name)
    of = range_from if operator == "at_least" else range_up_to
    return of(attribute, operand, name=name)


def _weighted(document: object, attribute: Attribute, name: str) -> ScaledWeights:
    points: dict[int, Fraction | int] = {}
    for key, number in _mapping(document, name).items():
        place = f"{name}.{key}"
        index = _index(key, attribute, place)
        if index in points:
            raise QueryError(place, "weigh a value that no other key weighs")
        points[index] = exact_number(number, place)
    try:
        return from_points(attribute.size, points)
    except QueryError as exc:
        raise QueryError(name, exc.condition) from exc


def _index(value: object, attribute: Attribute, name: str) -> int:
    if attribute.is_timed:
        return index_of_period(attribute, value, name=name)
    index = None
    if isinstance(value, str):
        index = attribute.index_of_name(value)
    elif attribute.kind == "labels" and isinstance(value, int):
        index = attribute.index_of_code(value if isinstance(value, bool) else code_text(value))
    if index is not None:
        return index
    if attribute.kind == "labels":
        raise QueryError(
            name,
            f"be a label of `{attribute.name}`",
            value,
            hint="Labels: " + _listed(attribute.value_names) + ".",
        )
    return one_value(attribute, exact_number(value, name), name=name)


def _mapping(document: object, name: str) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise QueryError(name, "be an object", document)
    if not all(isinstance(key, str) for key in document):
        raise QueryError(name, "have texts as keys")
    return document


def _list(document: object, name: str) -> Sequence[object]:
    if not isinstance(document, list | tuple) or not 1 <= len(document) <= MAX_TERMS:
        raise QueryError(name, f"be a list of 1 to {MAX_TERMS:,} items")
    return document


def _keys(body: Mapping[str, object]) -> str:
    return _listed(sorted(body))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(n[:40] for n in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
