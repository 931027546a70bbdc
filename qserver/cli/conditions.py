"""Read conditions typed on the command line into the structured form of a question.

Values stay texts: the server reads numbers from texts exactly, and knows which attributes have
labels. This module does not know the dataset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from qserver.errors import ConfigError

WHERE_HELP = """\
conditions (--where, once for each attribute; all must hold):
  NAME=VALUE        a label or a number: sex=Female
  NAME=A,B,C        one of several labels: education=Bachelors,Masters
  NAME=LOW..HIGH    a range; HIGH is included for whole numbers and periods: age=30..39,
                    week=2024-W10..2024-W20; dates that begin or end periods do as well
  NAME>=VALUE       at least; NAME<VALUE is below
  NAME=last:N       the last N periods that have their data: week=last:4
  NAME!=...         not: any of the forms that follow `=`
  NAME:=JSON        the structured form, for labels with commas: 'income:=">50K, gross"'
Without --where the question counts all records.
"""

_CONDITION = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<operator>:=|!=|>=|<|=)(?P<text>.*)")
_LAST = re.compile(r"last:([0-9]{1,9})")
_FORM = "have the form NAME=VALUE, NAME=LOW..HIGH, NAME>=VALUE, NAME<VALUE or NAME!=VALUE"
_MAX_BYTES = 1 << 20


def where_document(conditions: Sequence[str]) -> dict[str, Any]:
    """The `where` object of all conditions.

    Raises:
        ConfigError: a condition is malformed, or two name the same attribute.
    """
    where: dict[str, Any] = {}
    for text in conditions:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError("--where", _FORM, text)
        name = match["name"]
        if name in where:
            raise ConfigError("--where", f"name `{name}` once", hint="Use --json-query for more.")
        where[name] = _condition(match["operator"], match["text"], text)
    return where


def question_document(
    *, conditions: Sequence[str], json_query: str | None, stdin: TextIO
) -> dict[str, Any]:
    """The question of a command line, by its conditions or by `--json-query`.

    Args:
        conditions: the `--where` options.
        json_query: a JSON object, the path of a file with one, or `-` for standard input.
        stdin: standard input.

    Raises:
        ConfigError: both are given, or the JSON cannot be read.
    """
    if json_query is None:
        return {"where": where_document(conditions)}
    if conditions:
        raise ConfigError("--json-query", "be absent where --where is given")
    document = read_json(json_query, stdin=stdin, name="--json-query")
    if not isinstance(document, dict):
        raise ConfigError("--json-query", "be a JSON object")
    return document


def read_json(source: str, *, stdin: TextIO, name: str) -> Any:
    """The JSON value given on the command line, in a file, or with `-` on standard input.

    Raises:
        ConfigError: it cannot be read.
    """
    return parse_json(_json_text(source, stdin, name), name=name)


def parse_json(text: str, *, name: str) -> Any:
    """The JSON value in `text`; decimals stay texts, so that no digit is lost.

    Raises:
        ConfigError: it is not JSON; the message has the line and column.
    """

    def refuse(constant: str) -> NoReturn:
        raise ConfigError(name, "hold finite numbers only", constant)

    try:
        return json.loads(text, parse_float=str, parse_constant=refuse)
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno}, column {exc.colno}"
        raise ConfigError(name, f"be JSON ({exc.msg} at {place})") from exc
    except (RecursionError, ValueError) as exc:
        raise ConfigError(name, "be JSON of moderate depth and numbers") from exc


def _condition(operator: str, text: str, whole: str) -> Any:
    if operator == ":=":
        return parse_json(text, name="--where")
    if not text or (operator in ("<", ">=") and text.startswith("=")):
        raise ConfigError("--where", _FORM, whole)
    if operator == ">=":
        return {"at_least": text}
    if operator == "<":
        return {"below": text}
    inner = _values(text, whole)
    return {"not": inner} if operator == "!=" else inner


def _values(text: str, whole: str) -> Any:
    if ".." in text:
        ends = [end.strip() for end in text.split("..")]
        if len(ends) != 2 or not all(ends):
            raise ConfigError("--where", "give a range as LOW..HIGH", whole)
        return {"between": ends}
    if found := _LAST.fullmatch(text.strip()):
        return {"last": int(found[1])}
    values = [value.strip() for value in text.split(",")]
    if not all(values):
        raise ConfigError("--where", "have a value on each side of a comma", whole)
    return values if len(values) > 1 else values[0]


def _json_text(source: str, stdin: TextIO, name: str) -> str:
    if source.lstrip().startswith(("{", "[")):
        return source
    try:
        text = stdin.read(_MAX_BYTES + 1) if source == "-" else _file_text(Path(source))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(name, f"be JSON, `-` or a readable file ({type(exc).__name__})") from exc
    if len(text) > _MAX_BYTES:
        raise ConfigError(name, f"be at most {_MAX_BYTES >> 20} MiB")
    return text


def _file_text(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_MAX_BYTES + 1)
