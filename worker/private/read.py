"""Private files into integer codes: CSV or Parquet through DuckDB, total by construction.

DuckDB's messages quote values, so they leave this module for the owner's terminal only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from qserver.query.domain_file import domain_to_document
from worker.private.causal import kept_by_period
from worker.private.content import Content, content_of
from worker.private.labels import LabelCodes, hash_sql
from worker.private.periods import day_sql, period_codes
from worker.private.tables import RecordTable, table_from_columns
from worker.private.truncation import PersonRule, kept_records

_MISSING, _OUTSIDE, _BELOW, _ABOVE, _LEFT_OUT = -1, -2, -3, -4, -5
_ANY_OUTSIDE = (_OUTSIDE, _BELOW, _ABOVE)
_READERS = {
    ".csv": "read_csv({path}, header = true, all_varchar = true, sample_size = -1)",
    ".tsv": "read_csv({path}, header = true, all_varchar = true, sample_size = -1, delim = '\t')",
    ".parquet": "read_parquet({path})",
}


@dataclass(frozen=True, repr=False)
class Snapshot:
    """Converted records: the table, and keyed digests of its content.

    All are private. No separate count of records is kept: under add-remove even the number of
    records is not public.

    Args:
        fingerprint: of the table, in the order of the file. A worker serves this content only.
        content: what is compared with the files of other populations.
    """

    table: RecordTable
    fingerprint: str
    content: Content


@dataclass(frozen=True, repr=False)
class Records:
    """Coded records of a private file, before any of a person is left out.

    Args:
        codes: per attribute, the code of each record.
        people: the person of each record, as text, '' if unknown; None without a column.
        content: what is compared with the files of other populations.
        n_outside: by attribute, how many records of the file have a value outside the domain.
        n_unplaced: how many were left out because a value is missing.
    """

    codes: tuple[NDArray[np.int64], ...]
    people: NDArray[Any] | None
    content: Content
    n_outside: Mapping[str, int] = field(default_factory=dict)
    n_unplaced: int = 0

    def where(self, kept: NDArray[np.bool_]) -> Records:
        """The records of a mask."""
        people = None if self.people is None else self.people[kept]
        return replace(self, codes=tuple(c[kept] for c in self.codes), people=people)


def read_snapshot(
    path: Path,
    domain: Domain,
    *,
    key: bytes,
    person: PersonRule | None = None,
    say: Callable[[str], None] | None = None,
) -> Snapshot:
    """Read `path` into codes under the domain's rules, with at most k records of each person.

    Args:
        person: how many records of one person are kept; None keeps all. Records that the domain's
            rules drop do not count.
        say: told how many records are left out by period, for the owner alone.

    Raises:
        PrivateDataError: as `read_records`.
    """
    found = read_records(path, domain, key=key, person=person)
    if person is not None and found.people is not None:
        found = found.where(_kept(found.people, found.codes, person, key, say))
    table = table_from_columns(dict(enumerate(found.codes)), domain.sizes)
    return Snapshot(table, _fingerprint(table, domain, key), found.content)


def empty_snapshot(domain: Domain, *, content: Content, key: bytes) -> Snapshot:
    """A snapshot without any records yet: they arrive in parts.

    Args:
        content: what the file of its first part holds.
    """
    nothing = np.zeros(0, dtype=np.int64)
    table = table_from_columns(dict.fromkeys(range(len(domain.sizes)), nothing), domain.sizes)
    return Snapshot(table, _fingerprint(table, domain, key), content)


def read_records(
    path: Path, domain: Domain, *, key: bytes, person: PersonRule | None = None
) -> Records:
    """Read `path` into codes under the domain's rules.

    Args:
        path: a .csv, .tsv (with a header line, optionally .gz) or .parquet file whose columns
            include every attribute of the domain; other columns are not read.
        key: the worker's secret. Without it anybody could compare a fingerprint with guesses, and
            foresee which records stay.
        person: names the column of the person; None reads none.

    Raises:
        PrivateDataError: the file cannot be read, or lacks a column. Shown to the owner only.
    """
    with _connect(path) as connection:
        source = _source(path)
        _check_columns(connection, source, domain, person)
        labels = _label_codes(connection, domain)
        columns = [_column_sql(a, i) for i, a in enumerate(domain.attributes)]
        if person is not None:
            columns.append(f"coalesce({_text_sql(person.column)}, '') AS person")
        try:
            raw = connection.execute(
                f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608
            ).fetchnumpy()
        except duckdb.Error as exc:
            raise PrivateDataError(f"{path.name} cannot be read: {exc}") from exc
    found = [_coded(a, raw, i, labels) for i, a in enumerate(domain.attributes)]
    coded = [_by_rules(a, one) for a, one in zip(domain.attributes, found, strict=True)]
    kept = np.logical_and.reduce([c >= 0 for c in coded])
    inside = tuple(c[kept] for c in coded)
    people = None if person is None else np.asarray(raw["person"], dtype=object)[kept]
    content = content_of(path, domain, inside, people=people, key=key)
    return Records(inside, people, content, *_not_as_they_stand(domain, found, coded))


def _not_as_they_stand(
    domain: Domain, found: Sequence[NDArray[np.int64]], coded: Sequence[NDArray[np.int64]]
) -> tuple[dict[str, int], int]:
    """Records by attribute whose value is outside, and records left out for a missing one."""
    outside = [int(np.isin(one, _ANY_OUTSIDE).sum()) for one in found]
    unplaced = [(one == _MISSING) & (c < 0) for one, c in zip(found, coded, strict=True)]
    n_unplaced = int(np.logical_or.reduce(unplaced).sum())
    return dict(zip(domain.names, outside, strict=True)), n_unplaced


def _kept(
    people: NDArray[Any],
    codes: Sequence[NDArray[np.int64]],
    person: PersonRule,
    key: bytes,
    say: Callable[[str], None] | None,
) -> NDArray[np.bool_]:
    """Mask of the records to keep by the rule for one person's."""
    if person.by_period is None:
        return kept_records(people, codes, most=person.most, key=key)
    found = kept_by_period(people, codes, rule=person.by_period, key=key)
    if say is not None:
        for line in found.lines(person.by_period):
            say(line)
    return found.mask


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    connection = duckdb.connect(":memory:", config={"threads": 2})
    # Only this one file can be opened, and nothing can be loaded or fetched.
    connection.execute(f"SET allowed_paths = [{_quoted(str(path.resolve()))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET preserve_insertion_order = true")
    return connection


def _source(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in (".gz", ".zst")]
    reader = _READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        raise PrivateDataError(f"{path.name} must end in .csv, .tsv or .parquet (CSV also .gz).")
    return reader.format(path=_quoted(str(path.resolve())))


def _column_names(connection: duckdb.DuckDBPyConnection, source: str) -> list[str]:
    """Names of the file's columns."""
    try:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()  # noqa: S608
    except duckdb.Error as exc:
        raise PrivateDataError(f"The file cannot be read: {exc}") from exc
    return [str(row[0]) for row in rows]


def _check_columns(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    domain: Domain,
    person: PersonRule | None,
) -> None:
    found = set(_column_names(connection, source))
    needed = [*domain.names, *([] if person is None else [person.column])]
    lacking = [name for name in needed if name not in found]
    if lacking:
        raise PrivateDataError(
            f"The file must have a column for every attribute and for the person; it lacks "
            f"{', '.join(lacking)}."
        )


def _label_codes(connection: duckdb.DuckDBPyConnection, domain: Domain) -> Mapping[int, LabelCodes]:
    """The codes of the labels of each attribute that has some, by the attribute's number."""
    return {
        i: LabelCodes(connection, a, missing=_MISSING, outside=_OUTSIDE)
        for i, a in enumerate(domain.attributes)
        if not a.is_numeric
    }


def _column_sql(attribute: Attribute, i: int) -> str:
    """SQL for a label's hash, with periods a day as well, or a number; no value makes it fail."""
    text = _text_sql(attribute.name)
    if attribute.is_period:
        return f"{hash_sql(text)} AS c{i}, {day_sql(text, outside=_OUTSIDE)} AS d{i}"
    if attribute.kind == "labels":
        return f"{hash_sql(text)} AS c{i}"
    markers = ", ".join(map(_quoted, ("", *attribute.missing_markers)))
    missing = f"{text} IS NULL OR {text} IN ({markers})"
    return f"CASE WHEN {missing} THEN NULL ELSE TRY_CAST({text} AS DOUBLE) END AS c{i}"


def _text_sql(column: str) -> str:
    return f"trim(CAST({_identifier(column)} AS VARCHAR))"


def _coded(
    attribute: Attribute, raw: Mapping[str, Any], i: int, labels: Mapping[int, LabelCodes]
) -> NDArray[np.int64]:
    """Codes of one attribute; negative for a value that is missing or outside."""
    column = raw[f"c{i}"]
    if attribute.is_numeric:
        codes = _bins(attribute, np.ma.filled(column.astype(np.float64), np.nan))
    else:
        codes = labels[i].of(column)
    if attribute.is_period:
        codes = period_codes(attribute, codes, raw[f"d{i}"], missing=_MISSING, outside=_OUTSIDE)
    return codes


def _by_rules(attribute: Attribute, coded: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes by the attribute's rules; negative for a record to drop."""
    codes, other = coded.copy(), attribute.size - 1
    codes[coded == _OUTSIDE] = other if attribute.outside == "other" else _LEFT_OUT
    codes[coded == _MISSING] = other if attribute.missing == "other" else _LEFT_OUT
    codes[coded == _BELOW] = 0
    codes[coded == _ABOVE] = attribute.n_regular - 1
    return codes


def _bins(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.int64]:
    edges = np.array([float(e) for e in attribute.edges])
    codes = np.searchsorted(edges, values, side="right").astype(np.int64) - 1
    clamps, below = attribute.outside == "clamp", codes < 0
    codes[codes >= attribute.n_regular] = _ABOVE if clamps else _OUTSIDE
    codes[below] = _BELOW if clamps else _OUTSIDE
    codes[np.isnan(values)] = _MISSING
    return codes


def _fingerprint(table: RecordTable, domain: Domain, key: bytes) -> str:
    digest = hashlib.blake2b(key=key, digest_size=32)
    digest.update(json.dumps(domain_to_document(domain), sort_keys=True).encode())
    for codes in table.codes:
        digest.update(len(codes).to_bytes(8, "big"))
        digest.update(codes.tobytes())
    return digest.hexdigest()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def infer_domain_document(path: Path, *, without: str = "") -> dict[str, object]:
    """A domain document from the private file. This reveals data; see `attach --help`.

    Every distinct value of every column becomes a label, so rare values become public.

    Args:
        without: a column to leave out, such as that of the person.
    """
    with _connect(path) as connection:
        source = _source(path)
        attributes = []
        for name in _column_names(connection, source):
            if name == without:
                continue
            text = _text_sql(name)
            sql = f"SELECT DISTINCT {text} AS v FROM {source} WHERE {text} <> '' ORDER BY v"  # noqa: S608
            try:
                values = [str(row[0]) for row in connection.execute(sql).fetchall()]
            except duckdb.Error as exc:
                raise PrivateDataError(f"Column {name} cannot be read: {exc}") from exc
            attributes.append({"name": name, "kind": "labels", "labels": values or ["none"]})
    return {"attributes": attributes}
