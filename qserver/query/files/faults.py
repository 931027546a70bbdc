"""Every fault of a domain file at once, each with its line and how to mend it.

The parser that attach uses stops at the first fault. So each fault is mended in a copy with
something harmless, and the copy is parsed again, until nothing is wrong. What is found is thus
exactly what attach would refuse. A fault that another one hides may come up at the next check.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.errors import DomainError
from qserver.query.calendar.units import EXAMPLES
from qserver.query.domain import Domain
from qserver.query.domain_file import nearest_key
from qserver.query.files.keys import NAMES
from qserver.query.files.load import domain_of_new, parse_text, read_text
from qserver.query.files.places import Lines, json_lines, line_of, toml_lines

MAX_FAULTS = 100
_AT = re.compile(r"attributes\[(\d+)\](?:\.([^.\[]+))?(.*)", re.DOTALL)
_ENTRY = re.compile(r"\[(\d+)\]")
_MEANT = re.compile(r"Did you mean `([^`]+)`")
_LINE = re.compile(r"line (\d+)")
_MEND_BY_REMOVAL = (
    *("outside", "missing", "missing_markers", "other", "column", "levels", "codes"),
    *("trim", "fold", "decimal"),
)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Args:
        line: of the file, from 1.
        place: the key, such as `attributes[1].outside`.
        text: what is wrong and how to mend it.
        source: the line as it is written.
    """

    line: int
    place: str
    text: str
    source: str


@dataclass(frozen=True)
class Checked:
    """What a check of a file found.

    Args:
        domain: what it describes; None if something is wrong.
        faults: in the order of the file.
        lines: where its parts stand.
        texts: its lines.
    """

    domain: Domain | None
    faults: tuple[Fault, ...]
    lines: Lines
    texts: tuple[str, ...]

    def fault(self, place: str, text: str) -> Fault:
        """A fault at a place of this file."""
        line = line_of(place, self.lines)
        source = self.texts[line - 1].strip() if line <= len(self.texts) else ""
        return Fault(line, place, text, source[:200])


def check_file(path: Path) -> Checked:
    """All faults of a domain file.

    Raises:
        DomainError: it cannot be read as text, or has no ending that says its language.
    """
    text = read_text(path)
    lines = tuple(text.splitlines())
    try:
        document = parse_text(path, text)
    except DomainError as exc:
        found = _LINE.search(exc.condition)
        if found is None:
            raise
        at = int(found[1])
        checked = Checked(None, (), {path.name: at}, lines)
        return Checked(None, (checked.fault(path.name, str(exc)),), {}, lines)
    places = toml_lines(text) if path.suffix == ".toml" else json_lines(text)
    errors = faults_of(document)
    for error in errors:
        _note_as_meant(places, error)
    blank = Checked(None, (), places, lines)
    faults = sorted((blank.fault(e.name, str(e)) for e in errors), key=lambda f: f.line)
    domain = None if errors else domain_of_new(document)
    return Checked(domain, tuple(faults), places, lines)


def faults_of(document: object) -> list[DomainError]:
    """Every error of a document; [] if it describes a domain, at most 100."""
    document, found = deepcopy(document), list[DomainError]()
    seen = set[tuple[str, str]]()
    while len(found) < MAX_FAULTS:
        try:
            domain_of_new(document)
        except DomainError as exc:
            key = (exc.name, exc.condition)
            if key not in seen:
                found.append(exc)
            if not _mend(document, exc, is_again=key in seen):
                break
            seen.add(key)
        else:
            break
    return found


def _note_as_meant(places: Lines, error: DomainError) -> None:
    """Note a misspelt key's lines for the key that it was read as, too."""
    meant = _MEANT.search(error.hint)
    if meant is None or error.name not in places:
        return
    whole = error.name.rpartition(".")[0] + "." + meant[1]
    for place, line in list(places.items()):
        if place == error.name or place.startswith((f"{error.name}.", f"{error.name}[")):
            places.setdefault(whole + place[len(error.name) :], line)


def _mend(document: Any, error: DomainError, *, is_again: bool) -> bool:
    """Put something harmless in the place of a fault; whether that was possible."""
    at = _AT.match(error.name)
    if at is None:
        if isinstance(document, dict) and error.name in document and error.name != "attributes":
            del document[error.name]
            return True
        return False
    i, key, rest = int(at[1]), at[2], at[3]
    item = document["attributes"][i]
    if is_again or not isinstance(item, dict) or not all(isinstance(k, str) for k in item):
        name = item.get("name") if isinstance(item, dict) else None
        is_new = not (isinstance(item, dict) and item.get("labels") == ["?"])
        harmless = name if isinstance(name, str) and is_new else _unique(i)
        document["attributes"][i] = {"name": harmless, "labels": ["?"]}
        return is_new or harmless != name
    _mend_key(item, i, key or "", rest, error)
    return True


def _mend_key(item: dict[str, Any], i: int, key: str, rest: str, error: DomainError) -> None:
    if key not in NAMES:
        _rename(item, key, error)
    elif error.condition.startswith("be absent") or key in _MEND_BY_REMOVAL:
        _remove(item, key, rest)
    elif (entry := _ENTRY.fullmatch(rest)) and key == "labels":
        item[key][int(entry[1])] = f"?{entry[1]}"
        item.pop("levels", None)  # they would lack this label
    else:
        _HARMLESS[key](item, i)


def _remove(item: dict[str, Any], key: str, rest: str) -> None:
    entry = _ENTRY.fullmatch(rest)
    if entry and key in ("codes", "missing_markers"):
        item[key][int(entry[1])] = f"?{entry[1]}"
    else:
        item.pop(key, None)


def _rename(item: dict[str, Any], key: str, error: DomainError) -> None:
    """A misspelt key is read as the nearest one, so that its value is checked too."""
    whole = error.name.partition("].")[2]
    wrong = whole if whole in item else key
    value = item.pop(wrong, None)
    close = nearest_key(wrong)
    if close is not None and close not in item:
        item[close] = value


def _unique(i: int) -> str:
    return f"_{i}_"


def _set(**values: Any) -> Callable[[dict[str, Any], int], None]:
    def put(item: dict[str, Any], _i: int) -> None:
        item.update(values)
        for key in [k for k, v in values.items() if v is ...]:
            item.pop(key, None)

    return put


def _set_name(item: dict[str, Any], i: int) -> None:
    item["name"] = _unique(i)


def _set_kind(item: dict[str, Any], _i: int) -> None:
    kinds = {"labels": "labels", "range": "integer", "edges": "real", "every": "date"}
    guess = next((kind for key, kind in kinds.items() if key in item), None)
    if guess is None or guess == item.get("kind"):
        guess = "labels"
        item["labels"] = ["?"]
    item["kind"] = guess


def _set_first(item: dict[str, Any], _i: int) -> None:
    item["first"] = EXAMPLES.get(item.get("every", "day"), EXAMPLES["day"])


_HARMLESS: dict[str, Callable[[dict[str, Any], int], None]] = {
    "name": _set_name,
    "kind": _set_kind,
    "labels": _set(labels=["?"], codes=..., levels=...),
    "edges": _set(edges=[0, 1], range=..., width=...),
    "range": _set(range=[0, 1], width=..., edges=...),
    "width": _set(width=...),
    "every": _set(every="day", first="2024-01-01"),
    "first": _set_first,
    "count": _set(count=1),
}
