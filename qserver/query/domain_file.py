"""Domain files: JSON or TOML to a Domain and back, with messages that name the fault."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from qserver.errors import DomainError
from qserver.query.calendar.periods import Periods
from qserver.query.domain import (
    MAX_ATTRIBUTES,
    MAX_VALUES,
    Attribute,
    Domain,
    check_n_values,
    decimal_text,
)
from qserver.query.numbers import exact_number

_KEYS = {
    "name",
    "kind",
    "labels",
    "edges",
    "range",
    "width",
    "every",
    "first",
    "count",
    "outside",
    "missing",
    "missing_markers",
    "other",
}


def domain_from_document(document: object) -> Domain:
    """The domain that a parsed file or a stored document describes.

    Raises:
        DomainError: it is wrong; the message names the place.
    """
    if not isinstance(document, Mapping) or set(document) != {"attributes"}:
        raise DomainError("domain", "be an object with the one key `attributes`")
    items = document["attributes"]
    if not isinstance(items, list):
        raise DomainError("attributes", "be a list of attributes")
    attributes: list[Attribute] = []
    n_values = 0
    for i, item in enumerate(items[: MAX_ATTRIBUTES + 1]):
        attributes.append(_attribute(item, f"attributes[{i}]"))
        n_values += attributes[-1].size
        check_n_values(n_values)
    return Domain(tuple(attributes))


def domain_to_document(domain: Domain) -> dict[str, object]:
    """The domain as plain JSON values; `domain_from_document` reads it back equal."""
    return {"attributes": [_attribute_document(a) for a in domain.attributes]}


def _attribute(item: object, place: str) -> Attribute:
    if not isinstance(item, Mapping):
        raise DomainError(place, "be an object", item)
    if not all(isinstance(key, str) for key in item):
        raise DomainError(place, "have texts as keys")
    unknown = set(item) - _KEYS
    if unknown:
        allowed = ", ".join(sorted(_KEYS))
        raise DomainError(f"{place}.{min(unknown)}", f"be one of the keys {allowed}")
    try:
        return Attribute(**_arguments(item))
    except DomainError as exc:
        raise exc.under(place) from exc


def _arguments(item: Mapping[str, object]) -> dict[str, Any]:
    kind = item.get("kind", "labels" if "labels" in item else None)
    arguments: dict[str, Any] = {"name": item.get("name"), "kind": kind}
    arguments["labels"] = tuple(_texts(item.get("labels", []), "labels"))
    if "range" in item and "edges" in item:
        raise DomainError("edges", "be absent where `range` is given")
    if "width" in item and "range" not in item:
        raise DomainError("width", "be absent where `range` is not given")
    arguments["edges"] = _from_range(item) if "range" in item else _edges(item)
    arguments["periods"] = _periods(item)
    for key in ("outside", "missing", "other"):
        if key in item:
            arguments[key] = item[key]
    if "missing" not in item and item.get("outside") == "other":
        arguments["missing"] = "other"
    arguments["missing_markers"] = tuple(_texts(item.get("missing_markers", []), "missing_markers"))
    return arguments


def _periods(item: Mapping[str, object]) -> Periods | None:
    """The periods of the calendar that `every`, `first` and `count` declare together."""
    given = [key for key in ("every", "first", "count") if key in item]
    if item.get("kind") != "period":
        if given:
            raise DomainError(given[0], "be absent unless `kind` is `period`")
        return None
    if "labels" in item and given:
        raise DomainError(given[0], "be absent where `labels` are given")
    if "labels" in item:
        return None
    if len(given) < 3:
        lacking = next(key for key in ("every", "first", "count") if key not in item)
        raise DomainError(
            lacking, "be given for kind `period`: `every`, `first` and `count`, or else `labels`"
        )
    first, count = item["first"], item["count"]
    if isinstance(count, int) and count > MAX_VALUES:
        raise DomainError("count", f"be at most {MAX_VALUES:,}", count)
    return Periods(item["every"], _first(first), count)  # type: ignore[arg-type]


def _first(value: object) -> object:
    """As text: TOML has dates, and a year may be a number."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise DomainError(name, "be a list of texts")
    return value


def _edges(item: Mapping[str, object]) -> tuple[Fraction, ...]:
    value = item.get("edges", [])
    if not isinstance(value, list):
        raise DomainError("edges", "be a list of increasing numbers", value)
    return tuple(exact_number(v, f"edges[{i}]", DomainError) for i, v in enumerate(value))


def _from_range(item: Mapping[str, object]) -> tuple[Fraction, ...]:
    """Edges of equal bins: `range` [low, high] (high included for integers) and `width`."""
    ends = item["range"]
    if not isinstance(ends, list) or len(ends) != 2:
        raise DomainError("range", "be a list of two numbers [low, high]", ends)
    low, high = (exact_number(v, f"range[{i}]", DomainError) for i, v in enumerate(ends))
    width = exact_number(item.get("width", 1), "width", DomainError)
    stop = high + 1 if item.get("kind") == "integer" else high
    if width <= 0:
        raise DomainError("width", "be > 0", decimal_text(width))
    if stop <= low:
        order = "low <= high" if item.get("kind") == "integer" else "low < high"
        raise DomainError("range", f"have {order}")
    n_bins = (stop - low) / width
    if n_bins.denominator != 1:
        fits = low + -(-(stop - low) // width) * width - (stop - high)
        raise DomainError(
            "width",
            "divide the range into whole bins",
            decimal_text(width),
            hint=f"A range up to {decimal_text(fits)} would fit, or give `edges`.",
        )
    if n_bins > MAX_VALUES:
        raise DomainError("width", f"give at most {MAX_VALUES:,} bins", decimal_text(width))
    return tuple(low + i * width for i in range(int(n_bins) + 1))


def _attribute_document(attribute: Attribute) -> dict[str, object]:
    document: dict[str, object] = {"name": attribute.name, "kind": attribute.kind}
    if (periods := attribute.periods) is not None:
        document |= {"every": periods.every, "first": periods.first, "count": periods.count}
    elif not attribute.is_numeric:
        document["labels"] = list(attribute.labels)
    else:
        document["edges"] = [_json_number(e) for e in attribute.edges]
    document["outside"] = attribute.outside
    document["missing"] = attribute.missing
    if attribute.missing_markers:
        document["missing_markers"] = list(attribute.missing_markers)
    if attribute.has_other or attribute.other != "other":
        document["other"] = attribute.other
    return document


def _json_number(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else decimal_text(value)
