"""Where codes on Spark are said to be, without a Spark."""

from __future__ import annotations

import pytest

from qserver.errors import ConfigError
from worker.private.spark_place import (
    MOST_SLOT_S,
    SparkCodes,
    SparkPlace,
    column_names,
    place_of,
    schema_of,
)
from worker.sources.address import Address

CODES = SparkCodes(
    source="spark-connect://host:15002",
    options=("user={env:SPARK_USER}",),
    place=SparkPlace("s3a://bucket/codes/", 2.5),
    name="town-1",
    salt="5a17",
    check="c4ec",
)


def test_codes_are_in_a_folder_of_their_own_and_are_counted_at_the_address() -> None:
    assert CODES.path == "s3a://bucket/codes/town-1"
    assert CODES.address == Address(
        "spark-connect://host:15002", table="codes", options=("user={env:SPARK_USER}",)
    )
    assert SparkCodes.of_plain(CODES.to_plain()) == CODES


@pytest.mark.parametrize("n", [1, 3])
def test_each_attribute_has_a_column_of_whole_numbers(n: int) -> None:
    names = ["c0", "c1", "c2"][:n]
    assert column_names((2,) * n) == names
    assert schema_of((2,) * n) == ", ".join(f"{name} INT" for name in names)


def test_folder_and_slot_are_given_together_or_not_at_all() -> None:
    assert place_of("", None) is None
    assert place_of("/codes", 1.0) == SparkPlace("/codes", 1.0)
    for folder, slot_s in (("", 1.0), ("/codes", None)):
        with pytest.raises(ConfigError, match="be given together with --codes"):
            place_of(folder, slot_s)


@pytest.mark.parametrize(
    ("folder", "slot_s", "name"),
    [
        ("codes", 1.0, "codes"),
        ("", 1.0, "codes"),
        ("/codes", 0.0, "slot"),
        ("/codes", 121.0, "slot"),
    ],
)
def test_a_place_that_is_none_is_refused(folder: str, slot_s: float, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SparkPlace(folder, slot_s)
    assert caught.value.name == name
    assert SparkPlace("/codes", MOST_SLOT_S).slot_s == 120
