"""Structured questions, as JSON has them, to linear queries.

A question is `{"where": {...}}`, `{"any": [{...}, ...]}` (records that match at least one), or
`{"terms": [{"coefficient": 2, "where": {...}}, ...]}`. Conditions speak of recorded values: after
the domain's rules for outside and missing values were applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from qserver.bins import one_value, value_range
from qserver.domain import Attribute, Domain
from qserver.errors import QueryError
from qserver.numbers import exact_number
from qserver.query import MAX_TERMS, LinearQuery, linear_query
from qserver.unions import disjoint_union
from qserver.weights import ScaledWeights, scaled_weights

MAX_DEPTH = 32
_FORMS = "`where`, `any` or `terms`"
_OPERATORS = ("between", "at_least", "below", "not", "weights")


def parse_query(document: object, domain: Domain, *, name: str = "query") -> LinearQuery:
    """The linear query that a structured question means.

    Args:
        document: the question, parsed from JSON; numbers may be int, float, Decimal or text.
        domain: the public domain.
        name: where the question stands in the request, for messages.

    Raises:
        QueryError: it is not a question on this domain; the message names the place.
        CapacityError: it has too many terms.
    """
    body = _mapping(document, name)
    if len(body) != 1 or not set(body) <= {"where", "any", "terms"}:
        raise QueryError(name, f"be an object with exactly one of {_FORMS}", _keys(body))
    if "where" in body:
        weights = _where(body["where"], domain, f"{name}.where")
        return linear_query(domain.sizes, [(1, weights)])
    if "any" in body:
        return _any(body["any"], domain, f"{name}.any")
    return _terms(body["terms"], domain, f"{name}.terms")


def _terms(document: object, domain: Domain, name: str) -> LinearQuery:
    terms = []
    for i, item in enumerate(_list(document, name)):
        place = f"{name}[{i}]"
        body = _mapping(item, place)
        if not set(body) <= {"coefficient", "where"}:
            raise QueryError(place, "have only `coefficient` and `where`", _keys(body))
        coefficient = exact_number(body.get("coefficient", 1), f"{place}.coefficient")
        terms.append((coefficient, _where(body.get("where", {}), domain, f"{place}.where")))
    return linear_query(domain.sizes, terms)


def _any(document: object, domain: Domain, name: str) -> LinearQuery:
    boxes = []
    for i, item in enumerate(_list(document, name)):
        box = {}
        for axis, scaled in _where(item, domain, f"{name}[{i}]").items():
            if not (scaled.weights.is_indicator and scaled.factor in (0, 1)):
                raise QueryError(f"{name}[{i}]", "have no `weights`: a union is of sets of records")
            chosen = scaled.weights.dense.nonzero()[0].tolist()
            box[axis] = sum(1 << v for v in chosen)
        boxes.append(box)
    disjoint = disjoint_union(boxes, domain.sizes)
    return linear_query(domain.sizes, [(1, _box_weights(b, domain)) for b in disjoint])


def _box_weights(box: Mapping[int, int], domain: Domain) -> dict[int, ScaledWeights]:
    return {
        axis: scaled_weights([mask >> v & 1 for v in range(domain.sizes[axis])])
        for axis, mask in box.items()
    }


def _where(document: object, domain: Domain, name: str) -> dict[int, ScaledWeights]:
    weights = {}
    for key, condition in _mapping(document, name).items():
        axis = domain.axis(key)
        if axis is None:
            raise QueryError(
                f"{name}.{key}"[:120],
                "name an attribute of the dataset",
                hint="Attributes: " + _listed(domain.names) + ".",
            )
        attribute = domain.attributes[axis]
        dense = condition_weights(condition, attribute, name=f"{name}.{key}")
        weights[axis] = scaled_weights(dense)
    return weights


def condition_weights(
    condition: object, attribute: Attribute, *, name: str, depth: int = 0
) -> list[Fraction | int]:
    """Weight of each value of `attribute` under one condition; 0 or 1 but for `weights`."""
    if depth > MAX_DEPTH:
        raise QueryError(name[:120], f"be nested at most {MAX_DEPTH} deep")
    if isinstance(condition, Mapping):
        return _operator(condition, attribute, name, depth)
    if isinstance(condition, list | tuple):
        dense: list[Fraction | int] = [0] * attribute.size
        for i, item in enumerate(condition):
            if isinstance(item, list | tuple | Mapping):
                raise QueryError(f"{name}[{i}]", "be a label or value", item)
            dense[_index(item, attribute, f"{name}[{i}]")] = 1
        return dense
    return _ones(attribute, [_index(condition, attribute, name)])


def _operator(
    condition: Mapping[str, object], attribute: Attribute, name: str, depth: int
) -> list[Fraction | int]:
    if len(condition) != 1 or next(iter(condition)) not in _OPERATORS:
        choices = ", ".join(f"`{o}`" for o in _OPERATORS)
        raise QueryError(name, f"be a value, a list, or an object with one of {choices}")
    operator, operand = next(iter(condition.items()))
    place = f"{name}.{operator}"
    if operator == "not":
        inner = condition_weights(operand, attribute, name=place, depth=depth + 1)
        if not all(w in (0, 1) for w in inner):
            raise QueryError(place, "hold no `weights`")
        return [1 - w for w in inner]
    if operator == "weights":
        return _weighted(operand, attribute, place)
    return _ones(attribute, _range(operator, operand, attribute, place))


def _range(operator: str, operand: object, attribute: Attribute, name: str) -> range:
    if attribute.kind == "labels":
        raise QueryError(name, f"be used on numeric attributes; `{attribute.name}` has labels")
    low = high = None
    if operator == "between":
        ends = _list(operand, name)
        if len(ends) != 2:
            raise QueryError(name, "be a list of two numbers [low, high]", operand)
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


def _weighted(document: object, attribute: Attribute, name: str) -> list[Fraction | int]:
    dense: list[Fraction | int] = [0] * attribute.size
    for key, number in _mapping(document, name).items():
        place = f"{name}.{key}"[:120]
        dense[_index(key, attribute, place)] = exact_number(number, place)
    return dense


def _index(value: object, attribute: Attribute, name: str) -> int:
    if isinstance(value, str):
        index = attribute.index_of_label(value)
        if index is None and attribute.kind != "labels" and value in attribute.value_names:
            index = attribute.value_names.index(value)
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


def _ones(attribute: Attribute, chosen: Sequence[int] | range) -> list[Fraction | int]:
    dense: list[Fraction | int] = [0] * attribute.size
    for i in chosen:
        dense[i] = 1
    return dense


def _mapping(document: object, name: str) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise QueryError(name, "be an object", document)
    return document


def _list(document: object, name: str) -> Sequence[object]:
    if not isinstance(document, list | tuple) or not 1 <= len(document) <= MAX_TERMS:
        raise QueryError(name, f"be a list of 1 to {MAX_TERMS:,} items")
    return document


def _keys(body: Mapping[str, object]) -> str:
    return _listed(sorted(map(str, body)))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(n[:40] for n in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
