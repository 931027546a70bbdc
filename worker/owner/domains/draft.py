"""`qserver-worker domain`: its output, and a draft from names and types of columns.

Nothing in it depends on a record, unless the owner asks to see values. Then they stand in
comments, which attach does not read: a value becomes public only if the owner takes it over.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import tempfile
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from qserver.errors import ConfigError, DomainError, PrivateDataError
from qserver.query.calendar import number_of, text_of
from qserver.query.domain import MAX_VALUES, Domain, check_name
from qserver.query.domain_file import domain_from_document
from qserver.query.domain_keys import domain_schema
from worker.coding.names import NewValues, as_read, kind_read, name_sql
from worker.owner.domains.check import (
    MOST_VALUES,
    Report,
    Seen,
    Suggested,
    check,
    kind_of_name,
    kind_of_type,
    seen_in,
)
from worker.sources.address import Address, address_of
from worker.sources.kinds import open_source
from worker.sources.source import Column, check_columns, no_values_in_errors

_MOST = 56  # leaves room for a number after it


def attribute_name(column: str, taken: Collection[str]) -> str:
    """A free name that needs no quotes anywhere: `Größe (cm)` becomes `Grosse_cm`."""
    plain = unicodedata.normalize("NFKD", column.replace("ß", "ss"))
    letters = "".join(c for c in plain if not unicodedata.combining(c))
    found = re.sub(r"[^A-Za-z0-9_]+", "_", letters).strip("_")[:_MOST]
    if not found or not re.search(r"[A-Za-z]", found):
        found = f"column_{found}".rstrip("_")
    if found[0].isdigit():
        found = f"_{found}"
    name, n = found, 2
    while name.lower() in {other.lower() for other in taken}:
        name, n = f"{found}_{n}", n + 1
    return name


def domain_of_columns(document: Mapping[str, Any]) -> Domain:
    """The domain of a document whose attributes have their columns' names.

    An attribute whose column cannot be its name is given one, and reads that column.

    Raises:
        DomainError: it is wrong in another way.
    """
    items = document["attributes"]
    taken = [item["name"] for item in items if _is_name(item["name"])]
    found = []
    for item in items:
        column = item["name"]
        if not _is_name(column):
            taken.append(attribute_name(column, taken))
            item = {**item, "name": taken[-1], "column": column}
        found.append(item)
    return domain_from_document({**document, "attributes": found})


def _is_name(text: str) -> bool:
    try:
        check_name(text)
    except DomainError:
        return False
    return True


SHOWS_VALUES = """\
The comments marked SEEN show PRIVATE values of the data, to whoever reads this file. They reach
nobody else: attach does not read comments. What you take over out of them becomes public to every
analyst, for ever and without noise. Delete them before you pass this file on."""
_HEAD = """\
Domain of {name}: a draft, {made}.
Fill in what is marked FILL IN, delete what nobody should ask about, then run
  qserver-worker domain check {file} {source}
Everything in this file but comments becomes public. Choose bounds and labels by what you know
without the data. Every key: docs/domain.md, and `qserver-worker domain schema`."""
_MAGNITUDE = 10**11  # a tenth of what edges may be, so that bins around it fit


def draft(address: Address, *, folder: Path, shows_values: bool, out: Path | None) -> str:
    """The text of a draft, in TOML.

    Args:
        folder: for copies of what lies elsewhere.
        out: where the text will be; None where nobody knows.
        shows_values: read the data too, and write what was seen into comments.

    Raises:
        PrivateDataError: the source cannot be read.
        ConfigError: a driver or a secret is missing.
    """
    with open_source(address, folder=folder) as source:
        columns = source.columns
        wanted = [c.name for c in columns if not _why_not(c, _kind(c, None))]
        seen = seen_in(source, wanted) if shows_values else {}
    name = Path(address.text).name
    source_words = " ".join(map(_word, _words(address)))
    file = "FILE" if out is None else _word(str(out))
    return draft_text(columns, seen, name=name, source=source_words, file=file)


def check_command(file: Path, address: Address) -> str:
    """The command that checks a draft against its source, as typed at a shell."""
    return shlex.join(["qserver-worker", "domain", "check", str(file), *_words(address)])


def _words(address: Address) -> list[str]:
    """The arguments that name a source."""
    words = ["--source", address.text]
    words += ["--table", address.table] if address.table else []
    words += ["--query", address.query] if address.query else []
    return words + [word for option in address.options for word in ("--option", option)]


def _word(text: str) -> str:
    """A word of a shell on one line; one with line ends as bash writes it."""
    if text.isprintable():
        return shlex.quote(text)
    inside = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in inside) + "'"


def draft_text(
    columns: Sequence[Column],
    seen: Mapping[str, Seen],
    *,
    name: str,
    source: str,
    file: str = "FILE",
) -> str:
    """The text of a draft for these columns; `seen` is empty if values must not be shown.

    Args:
        name: of the data.
        source: the arguments that name them at a shell.
        file: where the text will be, likewise.
    """
    made = (
        "with kinds and comments that follow from its cells"
        if seen
        else "from the names and types of its columns alone"
    )
    head = _HEAD.format(name=_plain(name), source=source, file=file, made=made)
    lines = [
        f"# {line}" for text in (head, SHOWS_VALUES)[: 1 + bool(seen)] for line in text.split("\n")
    ]
    taken: list[str] = []
    for column in columns:
        kind = _kind(column, seen.get(column.name))
        if why := _why_not(column, kind):
            lines += ["", f"# Left out: column {_plain(column.name)}, which {why}"]
            continue
        taken.append(attribute_name(column.name, taken))
        lines += ["", *_attribute(column, taken[-1], kind, seen.get(column.name))]
        if (one := seen.get(column.name)) and one.markers:
            lines.append(f"# missing_markers = {_toml(sorted(one.markers))}  # SEEN")
    return "\n".join(lines) + "\n"


def _why_not(column: Column, kind: Suggested) -> str:
    """The reason to leave out a column of a draft, in lines of a comment; '' for none."""
    if column.is_twice:
        return "is there twice."
    if kind == "nested":
        return f"holds no single values ({_plain(column.type)})."
    if kind == "identifier":
        return (
            "looks like an identifier.\n"
            "# If it tells whose record it is, give it to attach as --person-id."
        )
    return ""


def _kind(column: Column, seen: Seen | None) -> Suggested:
    by_name = kind_of_name(column.name)
    by_type = kind_of_type(column)
    if by_type in ("nested", "identifier"):
        return by_type
    if by_name == "identifier" or (by_name == "date" and by_type == "labels" and seen is None):
        return by_name
    if seen is not None and by_type in ("", "labels"):
        return seen.kind or "labels"
    return by_type or by_name or "labels"


def _attribute(column: Column, name: str, kind: Suggested, seen: Seen | None) -> Iterator[str]:
    yield "[[attributes]]"
    yield f"name = {_toml(name)}"
    if name != column.name:
        yield f"column = {_toml(column.name)}"
    if column.type:
        yield f"# Its type: {_plain(column.type)}"
    elif seen is None:
        yield "# It has no type here; the kind is guessed from its name."
    if kind == "date":
        yield from _date(seen)
    elif kind in ("integer", "real"):
        yield from _numbers(kind, seen)
    elif kind == "boolean":
        yield 'kind = "labels"'
        yield "labels = [false, true]"
        yield 'outside = "other"'
    else:
        yield from _labels(seen)


def _labels(seen: Seen | None) -> Iterator[str]:
    yield 'kind = "labels"  # or "integer", "real", "date"'
    yield "# FILL IN: every value that may occur; all else is counted as one more, `other`."
    if seen is None:
        yield '# labels = ["...", "..."]'
    elif seen.has_few:
        yield f"# labels = {_toml(sorted(seen.texts))}  # SEEN"
    else:
        yield f"# SEEN: more than {MOST_VALUES} values"
    yield 'outside = "other"'


def _numbers(kind: Suggested, seen: Seen | None) -> Iterator[str]:
    yield f'kind = "{kind}"  # or "labels", with `codes` if it holds codes'
    yield "# FILL IN: the least and the greatest value, and the width of a bin."
    if seen is None or seen.low is None or seen.high is None:
        yield "# range = [0, 99]"
        yield "# width = 10"
    elif seen.whole and len(seen.texts) <= 12:
        yield f"# range = [{int(seen.low)}, {int(seen.high)}]  # SEEN, as a code perhaps"
    else:
        low, high, width = _bins(seen.low, seen.high, is_whole=kind == "integer")
        yield f"# range = [{low}, {high}]  # SEEN: {seen.low:.12g} to {seen.high:.12g}"
        yield f"# width = {width}"
    yield 'outside = "clamp"  # what lies beyond is put into the nearest bin; or "drop", "other"'
    yield 'missing = "other"'
    yield 'other = "unknown"'


def _date(seen: Seen | None) -> Iterator[str]:
    yield 'kind = "date"  # or "period", if data arrive by it'
    yield "# FILL IN: how long a bin is, the first one, and how many there are."
    if seen is None or seen.first is None or seen.last is None:
        yield 'every = "month"  # or day, week, quarter, year'
        yield '# first = "2015-01"'
        yield "# count = 180"
    else:
        first, last = _month(seen.first), _month(seen.last)
        yield 'every = "month"  # or day, week, quarter, year'
        yield f'# first = "{text_of("month", first)}"  # SEEN: {seen.first} to {seen.last}'
        yield f"# count = {last - first + 1}  # SEEN"
    yield 'outside = "other"  # or "clamp": the first or last bin, or "drop"'
    yield 'missing = "other"'
    yield 'other = "unknown"'


def _month(day: date) -> int:
    return number_of("month", min(max(day, date(1000, 1, 1)), date(9998, 12, 31)))


def _bins(low: float, high: float, *, is_whole: bool) -> tuple[str, str, str]:
    """A range of about ten bins around two values, with a width of 1, 2 or 5 times ten."""
    low, high = max(low, -_MAGNITUDE), min(high, _MAGNITUDE)
    spread = max(high - low, 1 if is_whole else 1e-6)
    digits = math.floor(math.log10(spread / 10))
    step, power = next(
        (s, digits) for s in (1, 2, 5, 10) if s * 10.0**digits * 10 >= spread * (1 - 1e-9)
    )
    if is_whole and power < 0:
        step, power = 1, 0
    width = step * 10.0**power
    start, stop = math.floor(low / width), math.floor(high / width) + 1
    end = stop * width - (1 if is_whole else 0)
    places = max(0, -power)
    return f"{start * width:.{places}f}", f"{end:.{places}f}", f"{width:.{places}f}"


def _toml(value: object) -> str:
    """JSON's text, which is also TOML's except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """A text for a comment: one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def run(
    arguments: argparse.Namespace, *, show: Callable[[str], None], say: Callable[[str], None]
) -> int:
    """Run one of the commands; its exit code.

    Args:
        show: told the outcome.
        say: told what is not part of it.
    """
    text, code = _outcome(arguments, say)
    show(text)
    return code


def _outcome(arguments: argparse.Namespace, say: Callable[[str], None]) -> tuple[str, int]:
    if arguments.action == "schema":
        return json.dumps(domain_schema(), indent=2), 0
    address = address_of(arguments) if arguments.source or arguments.data else None
    # A domain is drafted before there is a worker's folder.
    folder = Path(tempfile.gettempdir())
    if arguments.action == "init" and address is not None:
        return _init(arguments, address, folder, say), 0
    report = check(arguments.file, address, folder=folder)
    code = 1 if report.faults else 0
    if arguments.json:
        faults = [asdict(fault) for fault in report.faults]
        return json.dumps({"faults": faults, "notes": list(report.notes)}), code
    return "\n".join(_lines(report, arguments.file.name)), code


def _init(
    arguments: argparse.Namespace, address: Address, folder: Path, say: Callable[[str], None]
) -> str:
    out: Path | None = arguments.out
    if out is not None and out.suffix != ".toml":
        raise ConfigError("o", "end in .toml: a draft has comments", out.name)
    if out is not None and out.exists():
        raise ConfigError("o", "be a new file", str(out))
    if arguments.show_values:
        say(
            "warning: the draft shows values of the data in its comments, to whoever reads it. "
            "Nothing is sent anywhere; what you take over becomes public at attach."
        )
    text = draft(address, folder=folder, shows_values=arguments.show_values, out=out)
    if out is None:
        return text.rstrip("\n")
    mode = 0o600 if arguments.show_values else 0o644
    with os.fdopen(
        os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
    ) as f:
        f.write(text)
    n = text.count("[[attributes]]")
    return f"Wrote {out}: {n} attributes. Fill it in, then: {check_command(out, address)}"


def _lines(report: Report, name: str) -> list[str]:
    found = []
    for fault in report.faults:
        found += [f"{name}:{fault.line}: {fault.text}", f"    {fault.source}"]
    found += [f"note: {note}" for note in report.notes]
    domain = report.checked.domain
    if domain is None or report.faults:
        n = len(report.faults)
        found.append(f"{n} {'fault' if n == 1 else 'faults'}. Attach would refuse this file.")
    else:
        n_levels = len(domain.level_names)
        levels = f", {n_levels} level{'s' * (n_levels > 1)}" if n_levels else ""
        found.append(
            f"ok: {len(domain.attributes)} attributes{levels}, {domain.n_cells:,} cells"
            + ("" if report.n_columns is None else f"; all found among {report.n_columns} columns")
        )
    return found


def infer_domain_document(
    data: Path | Address, *, folder: Path, without: str = ""
) -> dict[str, object]:
    """A domain document from a source: every distinct value of every column becomes a label.

    Rare values become public with it.

    Args:
        folder: for copies of what lies elsewhere.
        without: a column to leave out, such as that of the person.

    Raises:
        PrivateDataError: it cannot be read, or a column has too many values for any attribute.
    """
    with open_source(Address.of(data), folder=folder) as source:
        names = [column.name for column in source.columns if column.name != without]
        check_columns(source, names)
        found: dict[str, set[str]] = {name: set() for name in names}
        with duckdb.connect(":memory:", config={"threads": 2}) as connection:
            new = {name: NewValues() for name in names}
            for batch in source.batches(names, None):
                for name, column in zip(names, batch.columns, strict=True):
                    found[name].update(_values(connection, new[name].of(column)))
                    if len(found[name]) > MAX_VALUES:
                        raise PrivateDataError(f"Column {name} has more than {MAX_VALUES:,} values")
    return {
        "attributes": [
            {"name": name, "kind": "labels", "labels": sorted(values) or ["none"]}
            for name, values in found.items()
        ]
    }


def _values(connection: duckdb.DuckDBPyConnection, column: pa.Array) -> list[str]:
    """The distinct texts of a column, as coded; empty ones are no label."""
    if not len(column):
        return []
    with no_values_in_errors("The source", lambda _: "holds bytes that are no UTF-8."):
        column.validate(full=True)
        connection.register("batch", pa.table([as_read(column)], names=["s"]))
        text = name_sql("s", kind_read(column.type))
        rows = connection.sql(f"SELECT DISTINCT {text} FROM batch WHERE {text} <> ''").fetchall()  # noqa: S608
    return [str(row[0]) for row in rows]
