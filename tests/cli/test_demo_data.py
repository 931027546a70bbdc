"""The Adult data that ship with the package: whole, attributed, and inside their domain."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections import Counter
from datetime import date
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest

from qserver.cli.local.demo import (
    CAPACITY,
    N_ADULT_RECORDS,
    N_FLIGHTS,
    SEALED_AT_FIRST,
    adult_attribution,
    adult_csv,
    adult_domain,
    deal_weeks,
)
from qserver.query.domain import Attribute, Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_loading import load_domain

SHA256 = "fe24177a5b0df1874e6afc5748b7d9e547ca25880a84c4310f39b7ccf1b0da37"
# Of the source's records, written as its lines are: fields joined by comma and space.
SOURCE_LINES_SHA256 = "df25a4e32ed6f1bd4b3910d21a7bd661a09061eced7cb45555a519d9667cc87b"
UNUSED = "fnlwgt"


@pytest.fixture(scope="module")
def records() -> list[dict[str, str]]:
    with gzip.open(adult_csv(), "rt", encoding="ascii", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain(adult_domain())


def index(attribute: Attribute, text: str) -> int | None:
    """The value's index under the rules for missing and outside values, by definition."""
    if text in ("", *attribute.missing_markers):
        return attribute.n_regular if attribute.missing == "other" else None
    if attribute.kind == "labels":
        found = attribute.labels.index(text) if text in attribute.labels else None
    else:
        number = Fraction(text)
        if attribute.outside == "clamp":
            number = min(max(number, attribute.edges[0]), attribute.edges[-1] - 1)
        holding = [i for i, low in enumerate(attribute.edges[:-1]) if low <= number]
        found = holding[-1] if holding and number < attribute.edges[-1] else None
    if found is None and attribute.outside == "other":
        return attribute.n_regular
    return found


def test_shipped_file_is_the_one_that_was_attributed() -> None:
    assert hashlib.sha256(adult_csv().read_bytes()).hexdigest() == SHA256
    assert SHA256 in adult_attribution().read_text(encoding="utf-8")


def test_records_are_those_of_the_source(records: list[dict[str, str]]) -> None:
    """Undoing the stated changes gives the source's lines again."""
    lines = "".join(", ".join(record.values()) + "\n" for record in records)
    assert hashlib.sha256(lines.encode()).hexdigest() == SOURCE_LINES_SHA256


def test_file_has_a_clean_header_and_every_record(records: list[dict[str, str]]) -> None:
    assert len(records) == N_ADULT_RECORDS == 32_561
    assert len(records[0]) == 15
    for record in records:
        assert None not in record
        assert all(text and text == text.strip() for text in record.values())


def test_domain_names_every_column_but_the_survey_weight(
    records: list[dict[str, str]], domain: Domain
) -> None:
    assert [name for name in records[0] if name != UNUSED] == list(domain.names)


def test_every_record_keeps_its_place(records: list[dict[str, str]], domain: Domain) -> None:
    """Counted by the test's own reading of the rules."""
    values = {a: {r[a.name] for r in records} for a in domain.attributes}
    memo = {a.name: {text: index(a, text) for text in texts} for a, texts in values.items()}
    kept = [r for r in records if all(memo[n][r[n]] is not None for n in domain.names)]
    assert len(kept) == N_ADULT_RECORDS
    assert domain.is_total
    assert all(a.is_total for a in domain.attributes)


def test_no_value_is_clamped_or_unknown_but_the_missing_ones(
    records: list[dict[str, str]], domain: Domain
) -> None:
    """The documentation's labels and bins cover the data: only `?` falls into `unknown`."""
    for attribute in domain.attributes:
        for text in {r[attribute.name] for r in records}:
            if text == "?":
                assert index(attribute, text) == attribute.size - 1
            elif attribute.kind == "labels":
                assert text in attribute.labels
            else:
                assert attribute.edges[0] <= int(text) < attribute.edges[-1]


def test_missing_values_are_in_the_three_columns_that_document_them(
    records: list[dict[str, str]],
) -> None:
    """The counts that the data set's own documentation implies: 30,162 complete records."""
    missing = Counter(name for r in records for name, text in r.items() if text == "?")
    assert missing == {"workclass": 1836, "occupation": 1843, "native-country": 583}
    assert sum("?" not in r.values() for r in records) == 30_162


def test_values_outside_the_domain_have_a_place_too(domain: Domain) -> None:
    for attribute in domain.attributes:
        outside = "Martian" if attribute.kind == "labels" else "-5"
        place = attribute.n_regular if attribute.kind == "labels" else 0
        assert index(attribute, outside) == place
        assert index(attribute, "") == attribute.size - 1
        assert attribute.other == "unknown"


def test_domain_comes_back_equal_from_its_document(domain: Domain) -> None:
    assert domain_from_document(domain_to_document(domain)) == domain


@pytest.mark.parametrize(
    "fact",
    [
        "Becker",
        "Kohavi",
        "1996",
        "UCI Machine Learning Repository",
        "https://doi.org/10.24432/C5XW20",
        "Attribution 4.0 International",
        "https://creativecommons.org/licenses/by/4.0/",
        "## Changes",
        "header line",
        "space after each comma",
        "32,561 records",
    ],
)
def test_attribution_names_source_authors_licence_and_changes(fact: str) -> None:
    assert fact in adult_attribution().read_text(encoding="utf-8")


def test_flights_are_the_attributed_ones_and_are_dealt_to_their_weeks(tmp_path: Path) -> None:
    folder = Path(str(files("qserver"))) / "data"
    packed = (folder / "flights.csv.gz").read_bytes()
    assert hashlib.sha256(packed).hexdigest() in adult_attribution().read_text(encoding="utf-8")
    first = deal_weeks(tmp_path)
    parts = {path.stem: path.read_text().splitlines() for path in tmp_path.glob("*.csv")}
    assert sorted(parts) == [f"2013-W{n}" for n in range(10, 14)] + [first.stem]
    assert sum(len(lines) - 1 for lines in parts.values()) == N_FLIGHTS
    (attribute, *_) = load_domain(folder / "flights-domain.json").attributes
    for name, (header, *lines) in parts.items():
        assert header == "week,origin,carrier,delay"
        counts = Counter(date.fromisoformat(line.split(",")[0]).isocalendar()[1] for line in lines)
        assert max(counts.values()) <= CAPACITY
        assert name == first.stem or [f"2013-W{week:02}" for week in counts] == [name]
    assert attribute.value_names[:8][-1] == SEALED_AT_FIRST
