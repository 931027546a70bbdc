"""Labels of a domain file, with their codes and levels, and levels back as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qserver.errors import DomainError
from qserver.query.labels.codes import code_text
from qserver.query.labels.levels import Level

if TYPE_CHECKING:
    from qserver.query.domain import Attribute


def read_labels(item: Mapping[str, object], *, is_coded: bool) -> dict[str, Any]:
    """The arguments `labels`, `codes` and `levels` of an attribute.

    Args:
        is_coded: whether labels may be numbers and booleans, which then are their own codes.

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
    """A list of texts; DomainError names the entry that is none."""
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
