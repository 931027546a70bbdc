"""Load a domain from its file, or list all its faults with their lines and fixes.

The parser of attach stops at the first fault. So each fault is mended in a copy with something
harmless, and the copy is parsed again, until nothing is wrong. So the faults are exactly those that
attach would refuse. A fault that another one hides may appear at the next check. *Lines.* Scanners
map places of a JSON or TOML text, such as `attributes[1].labels[0]`, to lines. The texts are
well-formed, as libraries have read them; the scanners know just enough of both languages to follow.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from qserver.errors import DomainError
from qserver.query.calendar import EXAMPLES
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, nearest_key
from qserver.query.domain_keys import NAMES

MAX_BYTES = 64 << 20
BLANKS = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What cells lose at their ends unless `trim` says otherwise: Unicode's blanks, and no tabs."""


def load_domain(path: Path) -> Domain:
    """The domain in a JSON or TOML file (by its ending).

    Raises:
        DomainError: the file cannot be read or is wrong; the message names the place.
    """
    return domain_from_document(parse_text(path, read_text(path)))


def load_new_domain(path: Path) -> Domain:
    """The domain in a file to be attached; raises as `domain_of_new` too."""
    return domain_of_new(parse_text(path, read_text(path)))


def domain_of_new(document: object) -> Domain:
    """The domain of a file to be attached.

    Raises:
        DomainError: it is wrong, or has a label that no cell can match. Attached domains are not
            checked for such labels: earlier versions took them.
    """
    domain = domain_from_document(document)
    for i, attribute in enumerate(domain.attributes):
        ends = {None: BLANKS, True: None, False: ""}[attribute.cells.trim]  # what `strip` takes off
        for key in ("codes" if attribute.codes else "labels", "missing_markers"):
            for k, text in enumerate(getattr(attribute, key)):
                if text != text.strip(ends):
                    raise DomainError(
                        f"attributes[{i}].{key}[{k}]",
                        "have no blank at its ends",
                        text,
                        hint="Cells lose theirs before they are compared, so nothing matches it.",
                    )
    return domain


def read_text(path: Path) -> str:
    """The text of a domain file; DomainError if it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DomainError(str(path), f"be at most {MAX_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:  # not UTF-8, or a NUL in the path
        raise DomainError(str(path), f"be a readable UTF-8 file ({type(exc).__name__})") from exc


def parse_text(path: Path, text: str) -> object:
    """The document in the text of a file, by the file's ending; DomainError."""
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text, parse_float=Decimal)
        if path.suffix == ".json":
            return json.loads(text, parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, ArithmeticError, RecursionError) as exc:
        # Bad syntax, integers beyond Python's limit, or exponents beyond Decimal's.
        reason = f"{path.suffix[1:].upper()} ({str(exc)[:200]})"
        raise DomainError(str(path), f"be well-formed {reason}") from exc
    raise DomainError(str(path), "end in .json or .toml")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; refuses repeated keys, which would silently be read once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DomainError(repeated, "be given once in an object of JSON")
    return found


Where = tuple[str | int, ...]
Lines = dict[str, int]
"""Per place the line of its key, or of the value where it is in a list, from 1."""

_JSON_SPACE = re.compile(r"\s*")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}#]+(?: [0-9]{2}:[0-9:.+Z-]+)?")  # a date may have a blank inside
_TOML_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_TOML_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL
)
_TOML_KEY = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|\'[^\']*\'')


def place_text(path: Where) -> str:
    """A path as messages write it: `attributes[1].labels[0]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def line_of(place: str, lines: Lines) -> int:
    """The line of a place, or of the nearest thing around it; 1 for none."""
    while place:
        if place in lines:
            return lines[place]
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return 1


def json_lines(text: str) -> Lines:
    """Places of a JSON text."""
    return _scanned(_JsonScan(text).value)


def toml_lines(text: str) -> Lines:
    """Places of a TOML text."""
    return _scanned(lambda found: _TomlScan(text, found).document())


class _Noted:
    """Notes the line where each place is first seen."""

    def __init__(self) -> None:
        self.lines: Lines = {}

    def note(self, path: Where, text: str, at: int) -> None:
        self.lines.setdefault(place_text(path), text.count("\n", 0, at) + 1)


def _scanned(scan: Callable[[_Noted], object]) -> Lines:
    found = _Noted()
    # What is nested beyond all use, or is no value at all, ends the scan: what was found has to do.
    with suppress(RecursionError, IndexError, ValueError):
        scan(found)
    return found.lines


class _JsonScan:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, found: _Noted, at: int = 0, path: Where = ()) -> int:
        """Note the parts of the value that begins at `at`; return the place behind it."""
        at = self._skip(at)
        sign = self._text[at]
        if sign == '"':
            return len(self._string(at)) + at
        if sign not in "{[":
            match = _SCALAR.match(self._text, at)
            return match.end() if match else at + 1
        at, i = self._skip(at + 1), 0
        while self._text[at] not in "}]":
            here: Where = (*path, i)
            begin = at
            if sign == "{":
                key = self._string(at)
                here = (*path, json.loads(key, strict=False))
                at = self._skip(at + len(key)) + 1
            found.note(here, self._text, begin)
            at = self._skip(self.value(found, at, here))
            if self._text[at] == ",":
                at = self._skip(at + 1)
            i += 1
        return at + 1

    def _skip(self, at: int) -> int:
        match = _JSON_SPACE.match(self._text, at)
        return match.end() if match else at

    def _string(self, at: int) -> str:
        match = _JSON_TEXT.match(self._text, at)
        if match is None:
            raise ValueError
        return match[0]


class _TomlScan:
    def __init__(self, text: str, found: _Noted) -> None:
        self._text, self._found = text, found
        self._n_tables: dict[Where, int] = {}

    def document(self) -> None:
        table: Where = ()
        at = self._skip(0)
        while at < len(self._text):
            if self._text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at)
            at = self._skip(at)

    def _header(self, at: int) -> tuple[Where, int]:
        begin, is_list = at, self._text.startswith("[[", at)
        keys, at = self._keys(at + 1 + is_list)
        path: Where = ()
        for i, key in enumerate(keys):
            path = (*path, key)
            if is_list and i == len(keys) - 1:
                self._n_tables[path] = self._n_tables.get(path, 0) + 1
            if path in self._n_tables:
                self._found.note(path, self._text, begin)
                path = (*path, self._n_tables[path] - 1)
            self._found.note(path, self._text, begin)
        return path, self._text.index("]", at) + 1 + is_list

    def _pair(self, table: Where, at: int) -> int:
        begin = at
        keys, at = self._keys(at)
        for key in keys:
            table = (*table, key)
            self._found.note(table, self._text, begin)
        return self._value(table, self._text.index("=", at) + 1)

    def _keys(self, at: int) -> tuple[list[str], int]:
        """The parts of a dotted key, and the place behind it."""
        keys = []
        while True:
            match = _TOML_KEY.match(self._text, at := self._skip(at))
            if match is None:
                raise ValueError
            key = match[0]
            keys.append(json.loads(key) if key[0] == '"' else key.strip("'"))
            after = self._skip(match.end())
            if self._text[after] != ".":
                return keys, after
            at = after + 1

    def _value(self, path: Where, at: int) -> int:
        at = self._skip(at)
        if (match := _TOML_TEXT.match(self._text, at)) is not None:
            return match.end()
        if self._text[at] == "[":
            at, i = self._skip(at + 1), 0
            while self._text[at] != "]":
                self._found.note((*path, i), self._text, at)
                at = self._after_comma(self._value((*path, i), at))
                i += 1
            return at + 1
        if self._text[at] == "{":
            at = self._skip(at + 1)
            while self._text[at] != "}":
                at = self._after_comma(self._pair(path, at))
            return at + 1
        match = _SCALAR.match(self._text, at)
        return match.end() if match else at + 1

    def _after_comma(self, at: int) -> int:
        at = self._skip(at)
        return self._skip(at + 1) if self._text[at] == "," else at

    def _skip(self, at: int) -> int:
        match = _TOML_SPACE.match(self._text, at)
        return match.end() if match else at


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
    """One fault.

    Args:
        line: of the file, from 1.
        place: the key, such as `attributes[1].outside`.
        text: the fault and its fix.
        source: the line as written.
    """

    line: int
    place: str
    text: str
    source: str


@dataclass(frozen=True)
class Checked:
    """The result of a file's check.

    Args:
        domain: of the file; None if it has faults.
        faults: in the order of the file.
        lines: of its parts.
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
    """Note a misspelt key's lines for its corrected key, too."""
    meant = _MEANT.search(error.hint)
    if meant is None or error.name not in places:
        return
    whole = error.name.rpartition(".")[0] + "." + meant[1]
    for place, line in list(places.items()):
        if place == error.name or place.startswith((f"{error.name}.", f"{error.name}[")):
            places.setdefault(whole + place[len(error.name) :], line)


def _mend(document: Any, error: DomainError, *, is_again: bool) -> bool:
    """Replace a fault with something harmless; return whether that was possible."""
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
    """Read a misspelt key as the nearest one, so that its value is checked too."""
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
