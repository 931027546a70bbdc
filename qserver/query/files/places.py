"""Where the parts of a JSON or TOML text stand: from a place such as `attributes[1].labels[0]`.

The texts are well-formed: the libraries that read them have said so. These scanners know just
enough of both languages to follow along and to note lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress

Path = tuple[str | int, ...]
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


def place_text(path: Path) -> str:
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
    """Notes the line of each place, the first time that it is seen."""

    def __init__(self) -> None:
        self.lines: Lines = {}

    def note(self, path: Path, text: str, at: int) -> None:
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

    def value(self, found: _Noted, at: int = 0, path: Path = ()) -> int:
        """Note what is in the value that begins at `at`; the place behind it."""
        at = self._skip(at)
        sign = self._text[at]
        if sign == '"':
            return len(self._string(at)) + at
        if sign not in "{[":
            match = _SCALAR.match(self._text, at)
            return match.end() if match else at + 1
        at, i = self._skip(at + 1), 0
        while self._text[at] not in "}]":
            here: Path = (*path, i)
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
        self._n_tables: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        at = self._skip(0)
        while at < len(self._text):
            if self._text[at] == "[":
                table, at = self._header(at)
            else:
                at = self._pair(table, at)
            at = self._skip(at)

    def _header(self, at: int) -> tuple[Path, int]:
        begin, is_list = at, self._text.startswith("[[", at)
        keys, at = self._keys(at + 1 + is_list)
        path: Path = ()
        for i, key in enumerate(keys):
            path = (*path, key)
            if is_list and i == len(keys) - 1:
                self._n_tables[path] = self._n_tables.get(path, 0) + 1
            if path in self._n_tables:
                self._found.note(path, self._text, begin)
                path = (*path, self._n_tables[path] - 1)
            self._found.note(path, self._text, begin)
        return path, self._text.index("]", at) + 1 + is_list

    def _pair(self, table: Path, at: int) -> int:
        begin = at
        keys, at = self._keys(at)
        for key in keys:
            table = (*table, key)
            self._found.note(table, self._text, begin)
        return self._value(table, self._text.index("=", at) + 1)

    def _keys(self, at: int) -> tuple[list[str], int]:
        """The parts of a dotted key, and the place behind them."""
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

    def _value(self, path: Path, at: int) -> int:
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
