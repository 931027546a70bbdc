"""Names of cells whose numbers are names: persons, codes, labels, markers and years.

The type of the column decides. In a column of numbers a whole number has one name, `17`, in every
numeric type, and other numbers have no zeros behind them. A column of texts has no such type: its
cells are names as they stand, but for whole numbers where numbers are meant, which programs write
as `17.0` or `1e+05` once a column has a gap. Texts such as `007` stay what they are.

Codes of a column's values: each value is coded once, however often it comes.

Real columns repeat themselves: a thousand days, a hundred ages, twenty towns. Arrow numbers the
values of a batch, DuckDB codes those that did not come before, and the records take their codes by
number. So what a value is follows from one piece of SQL, whether it comes once or a million times.

How wide a code is in memory and on disk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from worker.constants import WORKER
from worker.sources.source import is_exact

Coded = Callable[[pa.Array], Sequence[NDArray[np.int64]]]
"""From values of a column to the code of each, for every attribute that reads the column."""


@dataclass(frozen=True, repr=False)
class Codes:
    """The codes of one attribute for the records of a batch.

    Args:
        values: a code for each value.
        at: the value of each record; None where each record has a value of its own.
    """

    values: NDArray[np.int64]
    at: NDArray[Any] | None

    def rows(self, of_values: NDArray[Any]) -> NDArray[Any]:
        """Values of each record, from those of each distinct value."""
        return of_values if self.at is None else of_values[self.at]

    def n(self, of_values: NDArray[np.bool_]) -> int:
        """The number of records with a value in a mask."""
        return int(sum(mask.sum() for mask in self.masks(of_values)))

    def masks(self, of_values: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """Mask of the records with a value in a mask; none without such a value."""
        return [self.rows(of_values)] if of_values.any() else []

    def where(self, kept: NDArray[np.bool_]) -> Codes:
        """The codes of the records of a mask."""
        if self.at is None:
            return Codes(self.values[kept], None)
        return Codes(self.values, self.at[kept])


class ColumnCodes:
    """The codes of the batches of one column, all of one type.

    Args:
        coded: codes values, at most one batch of them at a time.
    """

    def __init__(self, coded: Coded) -> None:
        self._coded = coded
        self._known: pa.Array | None = None
        self._codes: Sequence[NDArray[np.int64]] = ()
        self._is_varied = False

    def of(self, column: pa.Array) -> list[Codes]:
        """The codes of a batch, for every attribute that reads the column."""
        numbered = None if self._is_varied else _numbered(column)
        if numbered is None or len(numbered.dictionary) > WORKER.varied_values:
            # Numbering values that hardly ever repeat takes time, and saves none.
            self._is_varied = True
            return [Codes(codes, None) for codes in self._coded(column)]
        values, at = numbered.dictionary, numbered.indices
        if at.null_count:  # a missing one comes after the others
            at = at.fill_null(len(values))
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        return [Codes(codes, np.from_dlpack(at)) for codes in self._of_values(values)]

    def _of_values(self, values: pa.Array) -> list[NDArray[np.int64]]:
        """The codes of values; new ones are coded now."""
        new = _not_among(values, self._known)
        if self._known is None or len(self._known) + len(new) > WORKER.varied_values:
            self._known, self._codes = values, self._coded(values)
        elif len(new):
            found = zip(self._codes, self._coded(new), strict=True)
            self._known = pa.concat_arrays([self._known, new])
            self._codes = [np.concatenate(pair) for pair in found]
        at = np.from_dlpack(pc.index_in(values, value_set=self._known))
        return [codes[at] for codes in self._codes]


class NewValues:
    """The new values of one column, batch after batch."""

    def __init__(self) -> None:
        self._values: pa.Array | None = None

    def of(self, column: pa.Array) -> pa.Array:
        """The new values of a batch; the batch itself if its values have no numbers.

        A dictionary may hold values that no record has. Those are left out.
        """
        try:
            numbered = column.dictionary_encode()
            values = numbered.dictionary.take(numbered.indices.unique().drop_null())
            values = _not_among(values, self._values)
        except pa.ArrowNotImplementedError:
            return column
        known = values if self._values is None else pa.concat_arrays([self._values, values])
        if len(known) <= WORKER.varied_values:
            self._values = known
        return values


def _not_among(values: pa.Array, known: pa.Array | None) -> pa.Array:
    if known is None:
        return values
    return values.filter(pc.is_null(pc.index_in(values, value_set=known)))


def _numbered(column: pa.Array) -> pa.DictionaryArray | None:
    """A column by the numbers of its values; None for a type without numbers."""
    try:
        return column.dictionary_encode()  # as it is, if it is so already
    except pa.ArrowNotImplementedError:
        return None


_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_PLAIN: Final = r"^(?:-?(0)|(-?[1-9][0-9]*))(?:\.0+)?$"
_LARGE: Final = r"-?[0-9](?:\.[0-9]+)?[eE]\+[0-9]{1,2}"
_WHITE = r"[\s\x0b\x1c-\x1f\x85\p{Z}]+"  # the characters that `str.strip` removes
_SPACE: Final = f"^{_WHITE}|{_WHITE}$"
_MOST_ZEROS: Final = 38  # behind the point of a number in any database
_LARGEST: Final = 2.0**127
"""From here on DuckDB names a number of a binary type by its nearest digits."""


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or is_exact(kind)
    )


def words_of(kind: pa.DataType) -> str:
    """What a column of this type holds, in words."""
    types = pa.types
    if types.is_integer(kind):
        return "whole numbers"
    if types.is_floating(kind):
        return "binary numbers"
    if is_number(kind):
        return "decimal numbers"
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary)
    return "texts" if any(check(kind) for check in checks) else str(kind)


def as_read(column: pa.Array) -> pa.Array:
    """A column in a type that DuckDB reads without loss; bytes become UTF-8 texts.

    Raises:
        pa.ArrowInvalid: there are bytes that are no UTF-8.
    """
    types = pa.types
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if types.is_dictionary(column.type) and not types.is_string(column.type.value_type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_float16(kind):
        return column.cast(pa.float32())
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return column.cast(pa.binary()).cast(pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return column.cast(pa.string())
    if types.is_decimal(kind) and kind.scale < 0:
        return column.cast(pa.decimal128(38, 0))
    return column.cast(pa.string()) if types.is_decimal256(kind) else column


def kind_read(kind: pa.DataType) -> pa.DataType:
    """The type whose rule applies to a column of this type."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def name_sql(column: str, kind: pa.DataType, *, trim: bool | None = None) -> str:
    """SQL for the name of each cell of a column with nulls; no value makes it fail.

    Args:
        column: SQL for the column, as `as_read` made it.
        kind: its type before that.
        trim: whether cells lose white space at their ends, as `Attribute` has it.
    """
    text = f"CAST({column} AS VARCHAR)"
    if trim is not False:
        text = f"trim({text})" if trim is None else f"regexp_replace({text}, '{_SPACE}', '', 'g')"
    if pa.types.is_floating(kind):
        return f"CASE WHEN NOT isnan({column}) THEN {_float_sql(column, text)} END"
    if pa.types.is_decimal(kind) or is_exact(kind):
        short = f"rtrim(rtrim({text}, '0'), '.')"
        return (
            f"CASE WHEN contains({text}, '.') THEN {short} WHEN lower({text}) <> 'nan' "
            f"THEN {text} END"
        )
    return text


def whole_sql(text: str) -> str:
    """SQL for a text, or for the name of the whole number that it writes.

    Args:
        text: SQL for the text, which may be null.
    """
    plain = f"regexp_replace({text}, '{_PLAIN}', '\\1\\2')"
    large = f"regexp_full_match({text}, '{_LARGE}')"
    # Two quick looks first: hardly any text of a table ends or is written like that.
    return (
        f"CASE WHEN suffix({text}, '0') THEN {plain} "
        f"WHEN contains({text}, '+') AND {large} "
        f"THEN {_float_sql(f'TRY_CAST({text} AS DOUBLE)', text)} ELSE {text} END"
    )


def _float_sql(number: str, text: str) -> str:
    """The name of a DOUBLE or FLOAT; its text if not whole, or too large."""
    whole = f"coalesce(CAST(TRY_CAST({number} AS HUGEINT) AS VARCHAR), {text})"
    return f"CASE WHEN {number} = trunc({number}) THEN {whole} ELSE {text} END"


def whole_name(text: str) -> str:
    """`whole_sql` for one text."""
    if found := re.match(_PLAIN, text):
        return found[1] or found[2]
    if re.fullmatch(_LARGE, text) and (number := float(text)).is_integer():
        return str(int(number)) if abs(number) < _LARGEST else text
    return text


def number_names(text: str) -> tuple[str, ...]:
    """How a column of numbers may name the number in a domain's text; () for no number.

    A number that is not whole has the name that decimal types give it, and that of binary ones.
    """
    value = number_of(text)
    if value is None or not math.isfinite(value):
        return ()
    plain = format(Decimal(text), "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    if plain in ("-0", "+0", "0"):
        return ("0",)
    is_one = "." not in plain and abs(value) < _LARGEST
    return (plain,) if is_one else (plain, repr(value))


def number_of(text: str) -> float | None:
    """The number in a domain's text, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None


def earlier_names(name: str) -> Iterator[str]:
    """The names that earlier versions may have given a person, by the type of the column."""
    names = number_names(name)
    if not names or names[0] != name:
        return
    zeros, point = range(1, _MOST_ZEROS + 1), "" if "." in name else "."
    yield from (name + point + "0" * n for n in zeros)
    number = float(name)
    if abs(number) >= 1e16 and int(number) == int(Decimal(name)):
        yield repr(number)
    if not number:
        yield "-0.0"
