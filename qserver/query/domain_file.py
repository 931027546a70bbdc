"""Domain files: JSON or TOML to a Domain and back, with messages that name the fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise
from typing import Any

from qserver.errors import DomainError
from qserver.query.calendar import Periods
from qserver.query.domain import (
    MAX_ATTRIBUTES,
    MAX_VALUES,
    Attribute,
    Domain,
    check_n_values,
    decimal_text,
)
from qserver.query.domain_keys import ALL, KEYS, NAMES
from qserver.query.exact_numbers import exact_number
from qserver.query.labels import Cells, Level, code_text


def read_labels(item: Mapping[str, object], *, is_coded: bool) -> dict[str, Any]:
    """The arguments `labels`, `codes` and `levels` of an attribute.

    Args:
        is_coded: whether labels may be numbers and booleans, and so their own codes.

    Raises:
        DomainError: one of them is wrong; the message names the entry.
    """
    if is_coded and "labels" not in item:
        raise DomainError("labels", "be given for kind `labels`: every value that may occur")
    given = item.get("labels", [])
    labels = _values(given, "labels") if is_coded else texts_of(given, "labels")
    _check_distinct(labels, "labels", "label")
    arguments: dict[str, Any] = {"labels": tuple(labels)}
    if "codes" in item:
        codes = _values(item["codes"], "codes")
        _check_distinct(codes, "codes", "code")
        if not codes:
            raise DomainError("codes", "be a list of one or more codes")
        arguments["codes"] = tuple(codes)
    elif isinstance(given, list) and not all(isinstance(x, str) for x in given):
        arguments["codes"] = tuple(labels)
    if "levels" in item:
        arguments["levels"] = tuple(_levels(item["levels"], labels))
    return arguments


def texts_of(value: object, name: str) -> list[str]:
    """A list of texts; DomainError names an entry of another type."""
    if not isinstance(value, list):
        raise DomainError(name, "be a list of texts", value)
    for i, text in enumerate(value):
        if not isinstance(text, str):
            raise DomainError(f"{name}[{i}]", "be a text", text)
    return value


def levels_document(attribute: Attribute) -> dict[str, dict[str, list[str]]]:
    """The levels of an attribute as a domain file has them."""
    return {
        level.name: {
            group: level.labels_of(i, attribute.labels) for i, group in enumerate(level.groups)
        }
        for level in attribute.levels
    }


def _values(value: object, name: str) -> list[str]:
    """A list of texts, whole numbers and booleans, as texts."""
    if not isinstance(value, list):
        raise DomainError(name, "be a list of texts, whole numbers or booleans", value)
    found = []
    for i, given in enumerate(value):
        text = code_text(given)
        if text is None:
            raise DomainError(
                f"{name}[{i}]", "be a non-empty text, a whole number or a boolean", given
            )
        found.append(text)
    return found


def _check_distinct(texts: Sequence[str], name: str, what: str) -> None:
    seen = set[str]()
    for i, text in enumerate(texts):
        if text in seen:
            raise DomainError(f"{name}[{i}]", f"name each {what} once", text)
        seen.add(text)


def _levels(value: object, labels: Sequence[str]) -> list[Level]:
    if not isinstance(value, Mapping) or not value:
        raise DomainError("levels", "be an object that names one or more levels", value)
    index = {label: i for i, label in enumerate(labels)}
    return [_level(name, groups, index) for name, groups in value.items()]


def _level(name: str, value: object, index: Mapping[str, int]) -> Level:
    from qserver.query.domain import check_name

    place = f"levels.{name}"
    try:
        check_name(name)
    except DomainError as exc:
        raise DomainError(place, "have a name as attributes have: " + exc.condition[3:]) from exc
    if not isinstance(value, Mapping) or not value:
        raise DomainError(place, "be an object of groups, each with a list of labels", value)
    group_of: dict[int, int] = {}
    for at, (group, members) in enumerate(value.items()):
        here = f"{place}.{group}"
        for k, label in enumerate(_values(members, here)):
            if label not in index:
                raise DomainError(f"{here}[{k}]", "be a label of the attribute", label)
            if group_of.setdefault(index[label], at) != at:
                raise DomainError(f"{here}[{k}]", "be in one group alone", label)
        if not members:
            raise DomainError(here, "have one or more labels")
    lacking = next((label for label, i in index.items() if i not in group_of), None)
    if lacking is not None:
        raise DomainError(place, "have each label in a group", hint=f"It lacks {lacking[:40]!r}.")
    try:
        return Level(name, tuple(value), tuple(group_of[i] for i in range(len(index))))
    except DomainError as exc:
        raise exc.under(place) from exc


_TEXTS = ("description", "licence")
# A JSON file may name its schema, as editors like it.
_TOP = ("attributes", "$schema", "within", *_TEXTS)
_SAME_KIND = {"timestamp": "date"}


def domain_from_document(document: object) -> Domain:
    """The domain of a parsed file or a stored document.

    Raises:
        DomainError: it is wrong; the message names the place.
    """
    if not isinstance(document, Mapping) or "attributes" not in document:
        raise DomainError("domain", "be an object with the key `attributes`")
    if unknown := [str(key) for key in document if key not in _TOP]:
        raise DomainError(
            min(unknown)[:120],
            "be absent: a domain has `attributes`, `description`, `licence`, `within`",
        )
    items = document["attributes"]
    if not isinstance(items, list):
        raise DomainError("attributes", "be a list of attributes")
    if not 1 <= len(items) <= MAX_ATTRIBUTES:
        raise DomainError("attributes", f"be a list of 1 to {MAX_ATTRIBUTES} attributes")
    attributes: list[Attribute] = []
    names = set[str]()
    n_values = 0
    for i, item in enumerate(items):
        attributes.append(_attribute(item, f"attributes[{i}]"))
        n_values += attributes[-1].size
        check_n_values(n_values)
        _check_names(attributes, names, f"attributes[{i}]")
    texts = {name: document[name] for name in _TEXTS if name in document}
    return Domain(tuple(attributes), **texts, within=_within(document))


def _within(document: Mapping[str, object]) -> Fraction | None:
    if "within" not in document:
        return None
    found = exact_number(document["within"], "within", DomainError)
    if found <= 0:
        raise DomainError("within", "be > 0", decimal_text(found))
    return found


def _check_names(attributes: Sequence[Attribute], names: set[str], place: str) -> None:
    """Raise DomainError if the last attribute repeats a name, or is a second `period`."""
    last = attributes[-1]
    named = {"name": last.name} | {f"levels.{level.name}": level.name for level in last.levels}
    for key, name in named.items():
        if name in names:
            raise DomainError(
                f"{place}.{key}", "differ from the names of other attributes and levels", name
            )
        names.add(name)
    if last.is_period and any(a.is_period for a in attributes[:-1]):
        earlier = next(a.name for a in attributes if a.is_period)
        raise DomainError(
            f"{place}.kind",
            "be `period` for at most one attribute",
            hint=f"`{earlier}` is one too; make one of them `date` or `labels`.",
        )


def domain_to_document(domain: Domain) -> dict[str, object]:
    """The domain as plain JSON values; `domain_from_document` reads it back equal."""
    texts = {"description": domain.description, "licence": domain.licence}
    said: dict[str, object] = {name: text for name, text in texts.items() if text}
    if domain.within is not None:
        said["within"] = _json_number(domain.within)
    return {**said, "attributes": [_attribute_document(a) for a in domain.attributes]}


def _attribute(item: object, place: str) -> Attribute:
    if not isinstance(item, Mapping):
        raise DomainError(place, "be an object", item)
    if not all(isinstance(key, str) for key in item):
        raise DomainError(place, "have texts as keys")
    unknown = set(item) - set(NAMES)
    if unknown:
        raise DomainError(
            f"{place}.{min(unknown)}",
            "be one of the keys " + ", ".join(sorted(NAMES)),
            hint=_suggestion(min(unknown)),
        )
    try:
        return Attribute(**_arguments(item))
    except DomainError as exc:
        raise exc.under(place) from exc


def nearest_key(name: str) -> str | None:
    """The most likely key for a misspelt one, or None."""
    close = get_close_matches(name[:64].lower(), NAMES, n=1, cutoff=0.6)
    return close[0] if close else None


def _suggestion(name: str) -> str:
    close = nearest_key(name)
    return f"Did you mean `{close}`?" if close else ""


def _arguments(item: Mapping[str, object]) -> dict[str, Any]:
    given = item.get("kind", "labels" if "labels" in item else None)
    kind = _SAME_KIND.get(given, given) if isinstance(given, str) else given
    arguments: dict[str, Any] = {"name": item.get("name"), "kind": kind}
    if isinstance(kind, str) and kind not in ALL:
        return arguments  # refused; what the other keys may say depends on it
    _check_kept_to(item, kind)
    arguments["cells"] = Cells.of(dict(item))
    arguments |= read_labels(item, is_coded=kind == "labels")
    if "range" in item and "edges" in item:
        raise DomainError("edges", "be absent where `range` is given")
    if "width" in item and "range" not in item:
        raise DomainError("width", "be absent where `range` is not given")
    if kind in ("integer", "real") and not {"range", "edges"} & set(item):
        raise DomainError("range", f"be given for kind `{kind}`, with `width`, or else `edges`")
    arguments["edges"] = _from_range(item) if "range" in item else _edges(item)
    arguments["periods"] = _periods(item, kind)
    for key in ("outside", "missing", "other", "column", "description"):
        if key in item:
            arguments[key] = item[key]
    if arguments.get("column", ...) == "":
        raise DomainError("column", "be a non-empty text")
    if "column" in item and item["column"] == item.get("name"):
        del arguments["column"]  # so that there is one way to say it
    if "missing" not in item and item.get("outside") == "other":
        arguments |= {"missing": "other", "says_missing": "missing_markers" in item}
    arguments["missing_markers"] = tuple(
        texts_of(item.get("missing_markers", []), "missing_markers")
    )
    return arguments


def _check_kept_to(item: Mapping[str, object], kind: object) -> None:
    """Raise DomainError for the first key that this kind of attribute lacks."""
    for key in KEYS:
        if key.name in item and kind in ALL and kind not in key.of:
            of = " or ".join(f"`{one}`" for one in key.of)
            raise DomainError(key.name, f"be absent for kind `{kind}`", hint=f"It is for {of}.")


def _periods(item: Mapping[str, object], kind: object) -> Periods | None:
    """The bins of the calendar that `every`, `first` and `count` declare together."""
    given = [key for key in ("every", "first", "count") if key in item]
    if kind not in ("date", "period"):
        return None
    if "labels" in item and given:
        raise DomainError(given[0], "be absent where `labels` are given")
    if "labels" in item:
        return None
    if len(given) < 3:
        lacking = next(key for key in ("every", "first", "count") if key not in item)
        rest = ", or else `labels`" if kind == "period" else ""
        raise DomainError(
            lacking, f"be given for kind `{kind}`: `every`, `first` and `count`{rest}"
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


def _edges(item: Mapping[str, object]) -> tuple[Fraction, ...]:
    value = item.get("edges", [])
    if not isinstance(value, list):
        raise DomainError("edges", "be a list of increasing numbers", value)
    edges = tuple(exact_number(v, f"edges[{i}]", DomainError) for i, v in enumerate(value))
    for i, (low, high) in enumerate(pairwise(edges), start=1):
        if high <= low:
            raise DomainError(
                f"edges[{i}]", "be greater than the edge before it", decimal_text(high)
            )
    return edges


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
    # What earlier versions did not have is written only where it says something.
    if attribute.description:
        document["description"] = attribute.description
    if attribute.column:
        document["column"] = attribute.column
    document |= attribute.cells.document()
    if attribute.codes:
        document["codes"] = list(attribute.codes)
    if attribute.levels:
        document["levels"] = levels_document(attribute)
    document["outside"] = attribute.outside
    if attribute.says_missing:
        document["missing"] = attribute.missing
    if attribute.missing_markers:
        document["missing_markers"] = list(attribute.missing_markers)
    if attribute.has_other or attribute.other != "other":
        document["other"] = attribute.other
    return document


def _json_number(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else decimal_text(value)
