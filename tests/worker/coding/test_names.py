"""Numbers that are names: one rule for every type of column and every role, by plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from qserver.errors import PrivateDataError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from worker.coding.coder import coder_of
from worker.coding.names import earlier_names, number_names, whole_name, whole_sql

VALUES: tuple[Any, ...] = (0, 1, 2, 7, 17, 99, 2024, -1, -0.0, 0.5, 1.5, math.nan, None)
TYPES: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "half": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "numeric(4,0)": pa.decimal128(4, 0),
    "numeric(6,2)": pa.decimal128(6, 2),
    "numeric(50,3)": pa.decimal256(50, 3),
    "dictionary": pa.dictionary(pa.int32(), pa.float64()),
    "exact": pa.opaque(pa.string(), "numeric", "PostgreSQL"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def held(kind: pa.DataType) -> list[Any]:
    """The values that a type can hold."""
    if pa.types.is_integer(kind):
        low, high = np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max
        return [v for v in VALUES if v is None or (v == v // 1 and low <= v <= high)]
    if pa.types.is_decimal(kind):
        whole = kind.scale == 0
        return [v for v in VALUES if v is None or (v == v and not (whole and v % 1))]
    return list(VALUES)


def column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """A column of this type; texts are those of Python's floats, as programs write gaps."""
    if pa.types.is_integer(kind):
        return pa.array([None if v is None else int(v) for v in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else Decimal(str(v)) for v in values], kind)
    if pa.types.is_float16(kind):
        numbers = np.array([0 if v is None else v for v in values], np.float16)
        return pa.array(numbers, mask=np.array([v is None for v in values]))
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.float64()).dictionary_encode()
    if isinstance(kind, pa.OpaqueType):
        # No database has an exact number -0.
        texts = pa.array([None if v is None else str(Decimal(str(v)) + 0) for v in values])
        return pa.ExtensionArray.from_storage(kind, texts)
    if pa.types.is_floating(kind):
        return pa.array(values, kind)
    texts = [None if v is None else str(float(v)) for v in values]
    return pa.array(texts).cast(kind)


def number(value: Any) -> Fraction | None:
    """A value as a number; None for what is none."""
    return None if value is None or value != value else Fraction(str(value))


def coded(domain: Domain, cells: pa.Array, *, person: bool = False) -> tuple[list[int], list[str]]:
    """The codes of the last attribute, and the persons, of a batch with a row of its own number."""
    numbers = pa.array([1] * len(cells))
    with coder_of(domain, person_column="x" if person else "") as coder:
        wanted = {"n": numbers, "x": cells}
        batch = pa.RecordBatch.from_arrays([wanted[c] for c in coder.columns], coder.columns)
        found = coder.of(batch)
    return found.codes[-1].tolist(), [] if found.people is None else found.people.to_pylist()


def domain_of(**item: Any) -> Domain:
    return domain_from_document({"attributes": [{"name": "x", **item}]})


OTHER = {"outside": "other", "missing": "other", "other": "unknown"}


def by_python(values: Sequence[Any], names: Sequence[int], other: int) -> list[int]:
    """The place of each number among the names, or the code of what is none of them."""
    wanted = [Fraction(n) for n in names]
    return [wanted.index(n) if (n := number(v)) in wanted else other for v in values]


Role = Callable[[Sequence[Any], pa.Array], tuple[list[int], list[int]]]


def as_codes(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    domain = domain_of(labels=["none", "one", "many"], codes=[0, 1, 17], **OTHER)
    return coded(domain, cells)[0], by_python(values, [0, 1, 17], 3)


def as_own_codes(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    domain = domain_of(labels=[2, -1, 2024], **OTHER)
    return coded(domain, cells)[0], by_python(values, [2, -1, 2024], 3)


def as_booleans(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    return coded(domain_of(labels=[False, True], **OTHER), cells)[0], by_python(values, [0, 1], 2)


def as_marker(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    """99 and 0 are missing before they are beyond the range, which 17 and -1 are."""
    item = {"kind": "integer", "range": [0, 9], "outside": "clamp", "missing": "other"}
    domain = domain_of(**item, other="unknown", missing_markers=["99", "0.0"])

    def code(n: Fraction | None) -> int:
        return 10 if n is None or n in (0, 99) else min(max(math.floor(n), 0), 9)

    return coded(domain, cells)[0], [code(number(v)) for v in values]


def as_marker_of_codes(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    """What is none of the codes is dropped; what is missing is counted."""
    domain = domain_of(labels=[0, 1], missing="other", missing_markers=["99", "NA"])
    found, expected = coded(domain, cells)[0], []
    for n in map(number, values):
        expected += [int(n)] if n in (0, 1) else [2] if n in (None, 99) else []
    return found, expected


def as_year(values: Sequence[Any], cells: pa.Array) -> tuple[list[int], list[int]]:
    domain = domain_of(kind="date", every="year", first="2023", count=3, **OTHER)
    return coded(domain, cells)[0], by_python(values, [2023, 2024, 2025], 3)


ROLES: dict[str, Role] = {
    "codes": as_codes,
    "own codes": as_own_codes,
    "booleans": as_booleans,
    "marker": as_marker,
    "marker of codes": as_marker_of_codes,
    "year": as_year,
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", TYPES)
def test_a_number_that_is_a_name_is_the_same_in_columns_of_every_type(name: str, role: str) -> None:
    kind = TYPES[name]
    values = [v for v in held(kind) if not (is_text(kind) and v != v)]
    found, expected = ROLES[role](values, column(kind, values))
    assert found == expected


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


@pytest.mark.parametrize("name", TYPES)
def test_a_person_has_one_name_in_columns_of_every_type(name: str) -> None:
    """Two cells are one person if and only if they are one number; nobody is known by NaN."""
    kind = TYPES[name]
    values = [v for v in held(kind) if not (is_text(kind) and v != v)]
    domain = domain_from_document({"attributes": [{"name": "n", "labels": [1]}]})
    people = coded(domain, column(kind, values), person=True)[1]
    for value, person in zip(values, people, strict=True):
        n = number(value)
        assert person == ("" if n is None else str(n) if n.denominator == 1 else str(float(n)))


@pytest.mark.parametrize("name", [name for name, kind in TYPES.items() if not is_text(kind)])
def test_labels_that_are_texts_are_numbers_in_a_column_of_numbers(name: str) -> None:
    """In a column of texts they stay as they are: other notations would change sealed data."""
    kind = TYPES[name]
    values = [v for v in held(kind) if v in (0, 1, 0.5, 17)]
    labels = ["0", "1.0", "0.50", "17"]
    found, _ = coded(domain_of(labels=labels), column(kind, values))
    assert found == [[0, 1, Fraction(1, 2), 17].index(number(v)) for v in values]


def test_labels_that_are_one_number_are_refused_in_a_column_of_numbers() -> None:
    domain = domain_of(labels=["250", "250.0"])
    assert coded(domain, pa.array(["250.0", "250"]))[0] == [1, 0]
    with pytest.raises(PrivateDataError, match="Two labels of x are one number"):
        coded(domain, pa.array([250.0]))


TEXTS = ["17", "17.0", "17.00", "-0", "-0.0", "0.0", "00", "007", "007.0", "1e+16", "1e+05", "1E+2"]
TEXTS += ["1.55e+01", "1e5", "1e+40", "17.5", "x+", "a0", "-17.00", "+5", "", "9" * 45 + ".0"]


def test_a_whole_number_in_a_text_has_one_name_and_other_texts_stay() -> None:
    """Zeros in front, as identifiers have them, make no number."""
    with duckdb.connect(":memory:") as connection:
        sql = f"SELECT {whole_sql('t')} FROM (SELECT unnest($texts::VARCHAR[]) AS t)"
        found = [row[0] for row in connection.execute(sql, {"texts": TEXTS}).fetchall()]
    assert found == [whole_name(text) for text in TEXTS]
    renamed = {"17.0": "17", "17.00": "17", "-0": "0", "-0.0": "0", "0.0": "0", "1E+2": "100"}
    renamed |= {"1e+16": "1" + "0" * 16, "1e+05": "100000", "-17.00": "-17", TEXTS[-1]: "9" * 45}
    assert found == [renamed.get(text, text) for text in TEXTS]


def test_every_name_that_an_earlier_version_gave_a_person_is_known() -> None:
    """It took the text that DuckDB gives a value of the column's type."""
    numbers = [0, 7, 17, 12345, 10**15, 10**16, 123456789012345680]
    kinds = ["BIGINT", "DOUBLE", "DECIMAL(38, 2)", "DECIMAL(38, 10)"]
    with duckdb.connect(":memory:") as connection:
        for number_ in numbers:
            for kind in kinds:
                sql = f"SELECT CAST(CAST({number_} AS {kind}) AS VARCHAR)"
                text = str(connection.execute(sql).fetchall()[0][0])
                assert text in {str(number_), *earlier_names(str(number_))}
    assert list(earlier_names("007")) == list(earlier_names("p1")) == []
    assert "-0.0" in earlier_names("0")


def test_what_is_no_number_has_no_name_in_a_column_of_numbers() -> None:
    assert [number_names(text) for text in ("x", "", "1e999", "nan", "1,5")] == [()] * 5
