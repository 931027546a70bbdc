"""Record batches into integer codes: by DuckDB and the rules of a domain, total by construction.

Whatever a source gives is named by a text first, in one way for all sources (`names`), so the same
values have the same codes wherever they lie.

Labels of private files into codes, by hashes, in the same time for every text.

To cast a text that is no label takes DuckDB thirty times as long as to cast one, so the time of
reading a file told how many there are. A hash takes as long for either.

Dates and timestamps of private files into periods: SQL that cannot fail, and codes.

The SQL gives for each record the day that its text names, if it names one. A timestamp with a zone
counts by its day in UTC, so the same moment is in the same period in every notation; without one it
counts by its day as written.

`WantedPeriods` are those that are wanted of a source that goes on holding others, as a table does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from qserver.query.labels import code_dtype
from worker.coding.names import (
    Codes,
    ColumnCodes,
    as_read,
    is_number,
    kind_read,
    name_sql,
    number_names,
    number_of,
    whole_name,
    whole_sql,
    words_of,
)
from worker.coding.tally import Tally
from worker.sources.source import Days, no_values_in_errors


@dataclass(frozen=True)
class WantedPeriods:
    """The periods from `start` up to, but not including, `stop`.

    Args:
        axis: position of the attribute of periods.
    """

    axis: int
    start: int
    stop: int

    def others(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the records of other periods; a record without a period is in none."""
        return np.asarray((codes >= 0) & ((codes < self.start) | (codes >= self.stop)))

    def days(self, domain: Domain) -> Days | None:
        """The days of the periods, with one more at each end for time zones; None for periods
        without days."""
        attribute = domain.attributes[self.axis]
        if attribute.periods is None:
            return None
        edges = attribute.periods.edges
        ends = [int(edges[self.start]) - 1, int(edges[self.stop]) + 1]
        first, stop = (date.fromordinal(min(max(end, 1), date.max.toordinal())) for end in ends)
        return Days(attribute.source, first, stop)


# Days stand above 0, and days before this era still do.
_DAYS, _LEAST_DAY = 1 << 32, 1 << 31
_FROM_YEAR_1 = 719_163  # `date.toordinal` of 1970-01-01
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:[.,][0-9]{1,9})?)?"
_ZONE = "(?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
_TIMESTAMP = f"{_DATE}(?:[T ]{_CLOCK}(?: ?(?:Z|[+-]{_ZONE}))?)?"
_MINUTES_A_DAY = 24 * 60


def dashed_sql(text: str) -> str:
    """SQL for a text whose date is written 2024/03/01, with dashes."""
    return f"regexp_replace({text}, '^([0-9]{{4}})/([0-9]{{2}})/([0-9]{{2}})', '\\1-\\2-\\3')"


def day_sql(text: str, *, outside: int) -> str:
    """SQL for the day of a date or timestamp; 0 for another text.

    Args:
        text: SQL for the text of the column, which may be null.
        outside: what a date is that no calendar has.
    """
    is_date = f"regexp_full_match(coalesce({text}, ''), '{_TIMESTAMP}')"
    return f"CASE WHEN {is_date} THEN coalesce({_day_sql(text)}, {outside}) ELSE 0 END"


def period_codes(
    attribute: Attribute,
    codes: NDArray[np.int64],
    days: NDArray[np.int64],
    *,
    missing: int,
    outside: int,
) -> NDArray[np.int64]:
    """Codes of dates and periods: a day has that of its bin, other texts keep theirs.

    Where `outside` is `clamp` a day beyond the bins has the nearest one, and what is no date or
    bin at all counts as missing.

    Args:
        codes: those of the texts as labels, or `missing`, which stays.
        days: what `day_sql` gave.
    """
    if attribute.periods is None:
        return codes
    found = np.searchsorted(attribute.periods.edges, days - _DAYS, side="right") - 1
    is_clamped = attribute.outside == "clamp"
    if is_clamped:
        found = np.clip(found, 0, attribute.n_regular - 1)
    found[(days < _LEAST_DAY) | (found < 0) | (found >= attribute.n_regular)] = outside
    found = np.where((days == 0) | (codes == missing), codes, found.astype(np.int64))
    if is_clamped:
        found[found == outside] = missing
    return found


def _day_sql(text: str) -> str:
    """The day in UTC of a timestamp, by `date.toordinal` and `_DAYS` more; NULL for none."""
    day = f"TRY_CAST(substr({text}, 1, 10) AS DATE) - DATE '1970-01-01' + {_FROM_YEAR_1 + _DAYS}"
    clock = f"{_minutes(text, 12)} * 60 + {_minutes(text, 15)}"
    zone = f"regexp_extract(substr({text}, 17), '([+-])([0-9]{{2}}):?([0-9]{{2}})?$', %d)"
    ahead = f"({_whole(zone % 2)} * 60 + {_whole(zone % 3)})"
    sign = f"CASE WHEN {zone % 1} = '-' THEN 1 ELSE -1 END"
    shift = f"CAST(floor(({clock} + {sign} * {ahead}) / {_MINUTES_A_DAY}.0) AS BIGINT)"
    return f"{day} + {shift}"


def _minutes(text: str, place: int) -> str:
    return _whole(f"substr({text}, {place}, 2)")


def _whole(text: str) -> str:
    return f"coalesce(TRY_CAST({text} AS BIGINT), 0)"


_HASH: Final = "hash"


def hash_sql(text: str, *, fold: bool = False) -> str:
    """SQL for the hash of a text, which may be null; it cannot fail.

    Args:
        text: SQL for the text.
        fold: whether capitals make no difference.
    """
    return f"{_HASH}(coalesce({f'lower({text})' if fold else text}, ''))"


class LabelCodes:
    """The codes of an attribute's labels, and of the texts for a missing value.

    Args:
        connection: the one that hashes the column, since another may hash otherwise.
        missing: the code of missing values.
        outside: the code of all other texts.
        of_numbers: whether the column holds numbers. Then a label, code or marker that is a number
            stands for that number, however it is written.

    Raises:
        PrivateDataError: two of the attribute's labels have the same hash, or are one number where
            the column holds numbers.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        attribute: Attribute,
        *,
        missing: int,
        outside: int,
        of_numbers: bool = False,
    ) -> None:
        markers = dict.fromkeys(attribute.missing_markers, missing)
        known = {"": missing, **attribute.recorded, **markers}
        self._outside = outside
        whole = None
        if of_numbers:
            codes = _merged((n, code) for t, code in known.items() for n in number_names(t) or (t,))
            if codes is None:
                raise PrivateDataError(
                    f"Two labels of {attribute.name} are one number, and its column holds numbers. "
                    "Keep one of them."
                )
        else:
            if _means_numbers(attribute):
                whole = _merged((whole_name(text), code) for text, code in known.items())
            # Markers are numbers in any column of texts, but for one that is a label.
            codes = whole or {f"{m}.0": missing for m in markers if number_names(m) == (m,)} | known
        self.are_whole = whole is not None
        """Whether whole numbers are meant in a column of texts, however they are written."""
        self._hashes, self._codes = _sorted(connection, codes, fold=attribute.cells.fold)
        is_same = self._hashes[1:] == self._hashes[:-1]
        if np.any(is_same & (self._codes[1:] != self._codes[:-1])):
            raise PrivateDataError(
                f"Two labels of {attribute.name} have the same hash. Rename one of them."
            )

    def of(self, hashes: NDArray[Any]) -> NDArray[np.int64]:
        """The code of each text by its hash."""
        wanted = np.asarray(hashes, dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        return np.where(self._hashes[at] == wanted, self._codes[at], self._outside)


def _means_numbers(attribute: Attribute) -> bool:
    """Whether its labels are codes or years; labels of text stay as they are."""
    is_year = attribute.periods is not None and attribute.periods.every == "year"
    return bool(attribute.codes) or is_year


def _merged(pairs: Iterable[tuple[str, int]]) -> dict[str, int] | None:
    """The code of each name; None if two codes have one name."""
    found: dict[str, int] = {}
    for name, code in pairs:
        if found.setdefault(name, code) != code:
            return None
    return found


def _sorted(
    connection: duckdb.DuckDBPyConnection, codes: Mapping[str, int], *, fold: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hashes of texts in order, and the code of each."""
    sql = f"SELECT {hash_sql('t', fold=fold)} AS h FROM (SELECT unnest($texts::VARCHAR[]) AS t)"  # noqa: S608
    found = connection.execute(sql, {"texts": list(codes)}).fetchnumpy()["h"]
    hashes = np.asarray(found, dtype=np.uint64)
    order = np.argsort(hashes)
    return hashes[order], np.fromiter(codes.values(), np.int64, len(codes))[order]


_MISSING, _OUTSIDE, _BELOW, _ABOVE, _LEFT_OUT = -1, -2, -3, -4, -5
_CELL: Final = "s"


@dataclass(frozen=True, repr=False)
class CodedBatch:
    """The records of a batch that no rule of the domain drops.

    Args:
        codes: per attribute, the code of each record, in its smallest type.
        people: the person of each record, as text, '' if unknown; None without a column.
    """

    codes: tuple[NDArray[Any], ...]
    people: pa.Array | None


class Coder:
    """Codes of the batches of one source; for one thread.

    Args:
        person_column: the column of the person; '' for none.
        periods: the periods that are wanted; None for all records.
        connection: a database of its own, in memory.
    """

    def __init__(
        self,
        domain: Domain,
        person_column: str,
        periods: WantedPeriods | None,
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        self._domain, self._person, self._periods = domain, person_column, periods
        self._connection = connection
        read = [a.source for a in domain.attributes] + [person_column] * bool(person_column)
        self.columns = list(dict.fromkeys(read))
        """The columns that a batch must have, in this order; attributes may share one."""
        self._schemas: dict[tuple[pa.DataType, ...], _Schema] = {}
        self.tally = Tally.of(domain)

    def of(self, batch: pa.RecordBatch) -> CodedBatch:
        """The codes of a batch; the fate of its records is added to the tally.

        Raises:
            PrivateDataError: it holds bytes that are no UTF-8, or a type that nothing reads.
        """
        with no_values_in_errors("The source", _words):
            batch.validate(full=True)
            columns = [as_read(column) for column in batch.columns]
            schema = self._schema(tuple(kind_read(field.type) for field in batch.schema))
            found = schema.codes(columns)
            people = schema.people(columns)
        self.tally.person_types.update(schema.person_type)
        self.tally.n_rows += batch.num_rows
        if self._periods is not None:
            periods = found[self._periods.axis]
            own = ~periods.rows(self._periods.others(periods.values))
            self.tally.n_other_periods += len(own) - int(own.sum())
            found = [codes.where(own) for codes in found]
            people = None if people is None else people.filter(pa.array(own))
        kept = self._kept(found)
        attributes = self._domain.attributes
        codes = tuple(_codes(a, one, kept) for a, one in zip(attributes, found, strict=True))
        self.tally.n_inside += len(codes[0])
        return CodedBatch(
            codes, people if people is None or kept is None else people.filter(pa.array(kept))
        )

    def _schema(self, kinds: tuple[pa.DataType, ...]) -> _Schema:
        """The reading of columns of these types; made once, as most sources have one schema."""
        if kinds not in self._schemas:
            self._schemas[kinds] = _Schema(
                self._connection,
                self._domain,
                dict(zip(self.columns, kinds, strict=True)),
                self._person,
            )
        return self._schemas[kinds]

    def _kept(self, found: Sequence[Codes]) -> NDArray[np.bool_] | None:
        """Mask of the records that no rule drops; None for all. Counts values outside a column's
        domain."""
        dropped: list[NDArray[np.bool_]] = []
        unplaced: list[NDArray[np.bool_]] = []
        for column, codes in zip(self.tally.columns, found, strict=True):
            missing = codes.values == _MISSING
            column.n_missing += codes.n(missing)
            column.n_outside += codes.n(codes.values < _MISSING)
            lost = _by_rules(column.attribute, codes.values) < 0
            dropped += codes.masks(lost)
            unplaced += codes.masks(lost & missing)
        if unplaced:
            self.tally.n_unplaced += int(np.logical_or.reduce(unplaced).sum())
        return ~np.logical_or.reduce(dropped) if dropped else None


@contextmanager
def coder_of(
    domain: Domain, *, person_column: str = "", periods: WantedPeriods | None = None
) -> Iterator[Coder]:
    """A coder with its own database, which opens and fetches nothing."""
    with duckdb.connect(":memory:", config={"threads": 2}) as connection:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET TimeZone = 'UTC'")
        yield Coder(domain, person_column, periods, connection)


def _words(error: Exception) -> str:
    if isinstance(error, pa.ArrowInvalid):
        return "holds bytes that are no UTF-8."
    if isinstance(error, duckdb.NotImplementedException):
        return (
            "has a column of a type that cannot be read. Turn it into text: in --query of a "
            "database, or where the file is made."
        )
    return f"cannot be read ({type(error).__name__})."


@dataclass(frozen=True)
class _Column:
    """A column: SQL for it, and its type."""

    sql: str
    kind: pa.DataType

    def name(self, *, trim: bool | None = None, whole: bool = False) -> str:
        """SQL for the name of each cell.

        Args:
            trim: as `Attribute` has it.
            whole: whether whole numbers are meant in a column of texts.
        """
        name = name_sql(self.sql, self.kind, trim=trim)
        return whole_sql(name) if whole and not is_number(self.kind) else name


class _Values:
    """Codes of the values of one column by SQL, for all its attributes.

    Args:
        attributes: those that read it.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        attributes: Sequence[Attribute],
        kind: pa.DataType,
    ) -> None:
        self._connection, self._attributes = connection, attributes
        self._labels = [
            None
            if a.is_numeric
            else LabelCodes(
                connection, a, missing=_MISSING, outside=_OUTSIDE, of_numbers=is_number(kind)
            )
            for a in attributes
        ]
        column = _Column(_CELL, kind)
        wanted = zip(attributes, self._labels, strict=True)
        found = [_column_sql(a, i, column, labels) for i, (a, labels) in enumerate(wanted)]
        self._sql = f"SELECT {', '.join(found)} FROM batch"  # noqa: S608

    def codes(self, values: pa.Array) -> list[NDArray[np.int64]]:
        """The codes of values; negative for a missing or outside one."""
        self._connection.register("batch", pa.table([values], [_CELL]))
        raw = self._connection.sql(self._sql).fetchnumpy()
        wanted = zip(self._attributes, self._labels, strict=True)
        return [_coded(a, raw, i, labels) for i, (a, labels) in enumerate(wanted)]


class _Schema:
    """The reading of batches of one schema.

    Args:
        kinds: by name, the type of each column that is read.
        person: the column of persons; '' for none.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        domain: Domain,
        kinds: Mapping[str, pa.DataType],
        person: str,
    ) -> None:
        self._connection, self._person = connection, list(kinds).index(person) if person else None
        self._axes = [[i for i, a in enumerate(domain.attributes) if a.source == n] for n in kinds]
        self._columns = [
            ColumnCodes(_Values(connection, [domain.attributes[i] for i in axes], kind).codes)
            for axes, kind in zip(self._axes, kinds.values(), strict=True)
        ]
        self.person_type = (words_of(kinds[person]),) if person else ()
        """What the column of persons holds, in words; none without one."""
        if person:
            name = _Column(_CELL, kinds[person]).name(whole=True)
            self._person_sql = f"SELECT coalesce({name}, '') AS person FROM batch"  # noqa: S608

    def codes(self, columns: Sequence[pa.Array]) -> list[Codes]:
        """The codes of each attribute, in the order of the domain."""
        found: dict[int, Codes] = {}
        for axes, coder, column in zip(self._axes, self._columns, columns, strict=True):
            if axes:
                found |= zip(axes, coder.of(column), strict=True)
        return [codes for _, codes in sorted(found.items())]

    def people(self, columns: Sequence[pa.Array]) -> pa.Array | None:
        """The person of each record as text, '' if unknown; None without a column."""
        if self._person is None:
            return None
        self._connection.register("batch", pa.table([columns[self._person]], [_CELL]))
        found = self._connection.sql(self._person_sql).to_arrow_table()
        return found.column("person").combine_chunks()


def _column_sql(attribute: Attribute, i: int, column: _Column, labels: LabelCodes | None) -> str:
    """SQL for a label's hash, also of periods as days, or for a number; no value makes it fail."""
    if labels is None:
        markers = ", ".join(map(_quoted, ("", *attribute.missing_markers)))
        name = column.name(trim=attribute.cells.trim)
        if pa.types.is_integer(column.kind):
            return f"CAST({column.sql} AS DOUBLE) AS c{i}"
        number = f"TRY_CAST({name} AS DOUBLE)"
        if attribute.cells.decimal == "," and not is_number(column.kind):
            dotted = f"TRY_CAST(replace({name}, ',', '.') AS DOUBLE)"
            number = f"CASE WHEN NOT contains({name}, '.') THEN {dotted} END"
        named = f"CASE WHEN {name} NOT IN ({markers}) THEN {number} END"
        if pa.types.is_float64(column.kind):
            # A finite one is what its name says, and what markers are numbers is looked at later.
            named = f"CASE WHEN isfinite({column.sql}) THEN {column.sql} ELSE {named} END"
        return f"{named} AS c{i}"
    text = column.name(trim=attribute.cells.trim, whole=labels.are_whole)
    if attribute.kind == "date":
        text = dashed_sql(text)
    if attribute.is_timed:
        return f"{hash_sql(text)} AS c{i}, {day_sql(text, outside=_OUTSIDE)} AS d{i}"
    return f"{hash_sql(text, fold=attribute.cells.fold)} AS c{i}"


def _coded(
    attribute: Attribute, raw: Mapping[str, Any], i: int, labels: LabelCodes | None
) -> NDArray[np.int64]:
    """Codes of one attribute; negative for a missing or outside value."""
    column = raw[f"c{i}"]
    if labels is None:
        codes = _bins(attribute, np.ma.filled(column.astype(np.float64), np.nan))
    else:
        codes = labels.of(column)
    if attribute.is_timed:
        codes = period_codes(attribute, codes, raw[f"d{i}"], missing=_MISSING, outside=_OUTSIDE)
    return codes


def _codes(attribute: Attribute, found: Codes, kept: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The codes of the kept records, by the rules and in their smallest type."""
    ruled = _by_rules(attribute, found.values).astype(code_dtype(attribute.size))
    codes = found.rows(ruled)
    return codes if kept is None else codes[kept]


def _by_rules(attribute: Attribute, coded: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes by the attribute's rules; negative for a record to drop."""
    codes, other = coded.copy(), attribute.size - 1
    codes[coded == _OUTSIDE] = other if attribute.outside == "other" else _LEFT_OUT
    codes[coded == _MISSING] = other if attribute.missing == "other" else _LEFT_OUT
    codes[coded == _BELOW] = 0
    codes[coded == _ABOVE] = attribute.n_regular - 1
    return codes


def _bins(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Codes of numbers. A number that a marker stands for is missing, not outside."""
    edges = np.array([float(e) for e in attribute.edges])
    codes = np.searchsorted(edges, values, side="right").astype(np.int64) - 1
    clamps, below = attribute.outside == "clamp", codes < 0
    codes[codes >= attribute.n_regular] = _ABOVE if clamps else _OUTSIDE
    codes[below] = _BELOW if clamps else _OUTSIDE
    markers = [x for x in map(number_of, attribute.missing_markers) if x is not None]
    codes[np.isnan(values) | np.isin(values, markers)] = _MISSING
    return codes


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
