"""Columns, codes, levels and dates: in a domain file, in conditions of JSON, and in SQL."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from qserver.errors import DomainError, QueryError, SqlError
from qserver.query.asking.structured_question import parse_query
from qserver.query.calendar import PeriodNotSealedError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.sealed_periods import sealed_domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.text import dataset_of

OTHER = {"outside": "other", "missing": "other"}
SMOKER = {"name": "smoker", "labels": ["no", "yes"], "codes": [False, True], **OTHER}
STAGE = {"name": "stage", "labels": ["a", "b", "c"], "codes": [1, 2, 3]}
GRADE = {"name": "grade", "labels": [1, 2, 3]}
REGION = {"North": ["York", "Leeds"], "South": ["Kent"]}
DISTRICT = {
    "name": "district",
    "column": "Bezirk / Größe",
    "labels": ["York", "Kent", "Leeds"],
    **OTHER,
    "levels": {"region": REGION, "land": {"all": ["York", "Kent", "Leeds"]}},
}
SEEN = {"name": "seen", "kind": "date", "every": "day", "first": "2024-01-01", "count": 366}
SEEN |= {"missing": "other", "other": "unknown"}
MONTH = {"name": "month", "kind": "timestamp", "every": "month", "first": "2020-01", "count": 60}
DOMAIN = domain_from_document({"attributes": [SMOKER, STAGE, GRADE, DISTRICT, SEEN, MONTH]})


def chosen(where: str, domain: Domain = DOMAIN) -> dict[str, list[str]]:
    """Per attribute that a condition of SQL restricts, the values that it keeps."""
    text = f"SELECT COUNT(*) FROM t WHERE {where} WITHIN 5"
    (row,) = parse_statement(text, domain, dataset="t").rows
    return kept(row.cells[0].query, domain)


def kept(query: Any, domain: Domain = DOMAIN) -> dict[str, list[str]]:
    (term,) = query.terms
    assert term.coefficient == 1
    found = {}
    for factor in term.factors:
        attribute = domain.attributes[factor.axis]
        names = np.array(attribute.value_names, dtype=object)
        found[attribute.name] = names[factor.weights.dense == 1].tolist()
    return found


def days(first: str, last: str) -> list[str]:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [(start + timedelta(days=i)).isoformat() for i in range((end - start).days + 1)]


def test_a_document_comes_back_equal_with_all_that_is_new() -> None:
    again = domain_from_document(json.loads(json.dumps(domain_to_document(DOMAIN))))
    assert again == DOMAIN
    assert again.attributes[3].source == "Bezirk / Größe"
    assert again.attributes[3].levels[0].groups == ("North", "South")
    assert again.attributes[5].kind == "date"


def test_a_domain_without_what_is_new_is_stored_as_before() -> None:
    """So digests over stored domains keep their value."""
    document: Any = domain_to_document(
        domain_from_document({"attributes": [{"name": "a", "column": "a", "labels": ["x"]}]})
    )
    (stored,) = document["attributes"]
    assert stored == {
        "name": "a",
        "kind": "labels",
        "labels": ["x"],
        "outside": "drop",
        "missing": "drop",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"column": ""}, r"column` must be a non-empty text"),
        ({"column": 3}, r"column` must be a text of up to 1,024"),
        ({"codes": [1, 2]}, r"codes` must be 3, one for each label"),
        ({"codes": [1, 2, 1]}, r"codes\[2\]` must name each code once, got '1'"),
        ({"codes": [1, 2, 1.5]}, r"codes\[2\]` must be a non-empty text, a whole number or"),
        ({"codes": []}, r"codes` must be a list of one or more codes"),
        ({"codes": [1, 2, "?"], "missing_markers": ["?"]}, r"missing_markers` must not be codes"),
        ({"labels": ["York", "Kent", 7, True, None]}, r"labels\[4\]` must be a non-empty text"),
        ({"levels": {}}, r"levels` must be an object that names one or more"),
        ({"levels": {"district": REGION}}, r"levels.district` must differ from the names of"),
        ({"levels": {"a b": REGION}}, r"levels.a b` must have a name as attributes have"),
        ({"levels": {"r": {"N": ["York"]}}}, r"levels.r` must have each label in a group. It"),
        ({"levels": {"r": REGION | {"E": ["York"]}}}, r"levels.r.E\[0\]` must be in one group"),
        ({"levels": {"r": REGION | {"E": ["Yorck"]}}}, r"levels.r.E\[0\]` must be a label of"),
        ({"levels": {"r": REGION | {"E": []}}}, r"levels.r.E` must have one or more labels"),
        (
            {"levels": {"r": {"other": ["York", "Kent", "Leeds"]}}},
            r"levels.r` must not call a group as `other`",
        ),
        ({"kind": "period", "levels": ..., "outside": "drop", "codes": [1, 2, 3]}, "codes` must"),
    ],
)
def test_what_is_wrong_is_refused_by_its_place(changes: dict[str, Any], message: str) -> None:
    item = {key: v for key, v in {**DISTRICT, **changes}.items() if v is not ...}
    with pytest.raises(DomainError, match=r"`attributes\[0\]\." + message):
        domain_from_document({"attributes": [item]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"every": ...}, "every` must be given for kind `date`"),
        ({"labels": ["x"]}, "labels` must be absent for kind `date`"),
        ({"other": "2030"}, "other` must not begin like a number"),
        (
            {"kind": "labels", "labels": ["x"]},
            "every` must be absent for kind `labels`. It is for",
        ),
    ],
)
def test_a_wrong_date_is_refused_by_its_place(changes: dict[str, Any], message: str) -> None:
    item = {key: v for key, v in {**SEEN, **changes}.items() if v is not ...}
    with pytest.raises(DomainError, match=r"`attributes\[0\]\." + message):
        domain_from_document({"attributes": [item]})


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"smoker": True}, {"smoker": ["yes"]}),
        ({"smoker": [False, "other"]}, {"smoker": ["no", "other"]}),
        ({"stage": 3}, {"stage": ["c"]}),
        ({"grade": [1, 3]}, {"grade": ["1", "3"]}),
        ({"region": "North"}, {"district": ["York", "Leeds"]}),
        ({"region": {"not": "North"}}, {"district": ["Kent", "other"]}),
        ({"region": "other"}, {"district": ["other"]}),
        ({"region": "North", "district": ["York", "Kent"]}, {"district": ["York"]}),
        (
            {"seen": {"between": ["2024-02-01", "2024-02-03"]}},
            {"seen": days("2024-02-01", "2024-02-03")},
        ),
        ({"seen": {"at_least": "2024-12"}}, {"seen": days("2024-12-01", "2024-12-31")}),
        ({"seen": "unknown"}, {"seen": ["unknown"]}),
        ({"month": {"below": "2020-03-01"}}, {"month": ["2020-01", "2020-02"]}),
    ],
)
def test_conditions_of_json_name_codes_levels_and_dates(
    where: dict[str, Any], found: dict[str, list[str]]
) -> None:
    assert kept(parse_query({"where": where}, DOMAIN)) == found


def test_weights_of_groups_are_those_of_their_labels() -> None:
    query = parse_query({"where": {"region": {"weights": {"North": 2, "other": -3}}}}, DOMAIN)
    (term,) = query.terms
    assert [int(w) for w in term.factors[0].weights.dense] == [2, 0, 2, -3]


@pytest.mark.parametrize(
    "where",
    [{"smoker": 3}, {"stage": True}, {"region": {"at_least": "North"}}, {"region": "York"}],
)
def test_what_is_no_code_or_group_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=r"must be (a label|used on numbers)"):
        parse_query({"where": where}, DOMAIN)


def test_last_is_for_periods_by_which_data_arrive() -> None:
    with pytest.raises(QueryError, match=r"be used on periods; `seen` has none"):
        parse_query({"where": {"seen": {"last": 3}}}, DOMAIN)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("smoker = TRUE", {"smoker": ["yes"]}),
        ("FALSE = smoker", {"smoker": ["no"]}),
        ("smoker", {"smoker": ["yes"]}),
        ("NOT smoker", {"smoker": ["no"]}),
        ("smoker IS NOT TRUE", {"smoker": ["no", "other"]}),
        ("smoker IS FALSE", {"smoker": ["no"]}),
        ("stage = 3", {"stage": ["c"]}),
        ("stage IN (1, 'b')", {"stage": ["a", "b"]}),
        ("stage <> 3", {"stage": ["a", "b"]}),
        ("grade = 2", {"grade": ["2"]}),
        ("region = 'North'", {"district": ["York", "Leeds"]}),
        ("Region <> 'North'", {"district": ["Kent"]}),
        ("region LIKE 'S%'", {"district": ["Kent"]}),
        ("region IN ('South', 'other')", {"district": ["Kent", "other"]}),
        ("region = 'North' AND district <> 'York'", {"district": ["Leeds"]}),
        ("seen >= '2024-12-30'", {"seen": days("2024-12-30", "2024-12-31")}),
        ("seen >= DATE '2024-12-30'", {"seen": days("2024-12-30", "2024-12-31")}),
        ("seen BETWEEN '2024-02-28' AND '2024-03-01'", {"seen": days("2024-02-28", "2024-03-01")}),
        ("NOT seen < '2024-12-31'", {"seen": ["2024-12-31"]}),
        ("seen IS NULL", {"seen": ["unknown"]}),
        ("date_trunc('month', seen) = '2024-02-01'", {"seen": days("2024-02-01", "2024-02-29")}),
        ("month(seen) = '2024-02'", {"seen": days("2024-02-01", "2024-02-29")}),
        ("date_trunc('month', seen) > '2024-11-15'", {"seen": days("2024-12-01", "2024-12-31")}),
        (
            "quarter(seen) IN ('2024-Q4', 'unknown')",
            {"seen": [*days("2024-10-01", "2024-12-31"), "unknown"]},
        ),
        ("year(month) = 2020 AND EXTRACT(MONTH FROM month) = 5", {"month": ["2020-05"]}),
        (
            "EXTRACT(YEAR FROM month) >= 2024 AND EXTRACT(QUARTER FROM month) = 1",
            {"month": ["2024-01", "2024-02", "2024-03"]},
        ),
        (
            "EXTRACT(YEAR FROM month) NOT BETWEEN 2021 AND 2024",
            {"month": [f"2020-{m:02}" for m in range(1, 13)]},
        ),
    ],
)
def test_conditions_of_sql_name_codes_levels_and_dates(
    where: str, found: dict[str, list[str]]
) -> None:
    assert chosen(where) == found


@pytest.mark.parametrize("part", ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW"])
def test_each_part_of_a_day_is_that_of_the_calendar(part: str) -> None:
    """Python's own calendar is the oracle."""
    of = {
        "YEAR": lambda d: d.year,
        "QUARTER": lambda d: -(-d.month // 3),
        "MONTH": lambda d: d.month,
        "WEEK": lambda d: d.isocalendar()[1],
        "DAY": lambda d: d.day,
        "DOW": lambda d: int(d.strftime("%w")),
        "ISODOW": lambda d: d.isoweekday(),
    }[part]
    every = days("2024-01-01", "2024-12-31")
    expected: dict[str, list[str]] = {}
    for day in every:
        expected.setdefault(str(of(date.fromisoformat(day))), []).append(day)
    for value, wanted in expected.items():
        same = {} if part == "YEAR" else {"seen": wanted}
        assert chosen(f"EXTRACT({part} FROM seen) = {value} AND seen <> 'unknown'") == (
            same or {"seen": every}
        )


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("stage = 9", "compare `stage` with its codes: no label has this one"),
        ("stage = TRUE", "compare `stage` with its codes"),
        ("stage", "compare one attribute"),
        ("region = 'Noth'", "compare `region` with a value of it .* Did you mean 'North'"),
        ("region > 'North'", "compare `region` by =, <>, IN or LIKE with texts"),
        ("region = district", "compare one attribute"),
        ("date_trunc('month', seen) = '2024-02-03'", "name the first day of a month"),
        ("month(seen) = 'May'", "compare a month of `seen` with a month .* EXTRACT.MONTH FROM"),
        ("EXTRACT(DAY FROM month) = 1", "take no less than a month of `month`"),
        ("EXTRACT(HOUR FROM seen) = 1", "EXTRACT one of YEAR, ISOYEAR, QUARTER"),
        ("EXTRACT(YEAR FROM district) = 1", "take the year of an attribute of dates"),
        ("month < '2024-02-03'", "not cut through a period of `month`"),
    ],
)
def test_wrong_conditions_of_sql_are_refused_with_the_nearest(where: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        chosen(where)


@pytest.mark.parametrize(
    ("select", "groups"),
    [
        ("region", [("North",), ("South",), (None,)]),
        (
            "region, district",
            [("North", "York"), ("North", "Leeds"), ("South", "Kent"), (None, None)],
        ),
        ("smoker", [("no",), ("yes",), (None,)]),
        ("quarter(seen)", [("1",), ("2",), ("3",), ("4",), (None,)]),
        ("date_trunc('quarter', seen)", [(f"2024-Q{q}",) for q in range(1, 5)] + [(None,)]),
        ("month(month)", [(str(m),) for m in range(1, 13)]),
        ("EXTRACT(MONTH FROM month)", [(str(m),) for m in range(1, 13)]),
    ],
)
def test_group_by_takes_levels_dates_and_their_parts(
    select: str, groups: list[tuple[str | None, ...]]
) -> None:
    text = f"SELECT {select}, COUNT(*) FROM t GROUP BY {select} WITHIN 5"
    rows = parse_statement(text, DOMAIN, dataset="t").rows
    assert {row.group for row in rows} == set(groups)
    assert len(rows) == len(groups)


def test_a_region_asks_for_its_districts_alone() -> None:
    """So it is free where these are known."""
    text = "SELECT {0}, COUNT(*) FROM t GROUP BY {0} WITHIN 5"
    of = {
        name: {
            row.group[0]: row.cells[0].query
            for row in parse_statement(text.format(name), DOMAIN, dataset="t").rows
        }
        for name in ("region", "district")
    }
    assert kept(of["region"]["North"]) == {"district": ["York", "Leeds"]}
    assert kept(of["district"]["York"]) == {"district": ["York"]}
    assert of["region"][None] == of["district"][None]


def test_a_longer_period_whose_data_have_not_arrived_is_refused() -> None:
    week = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 20}
    grown = sealed_domain(domain_from_document({"attributes": [week]}), "week", 5)
    first = ["2024-W10", "2024-W11", "2024-W12", "2024-W13"]
    assert chosen("month(week) = '2024-03'", grown) == {"week": first}
    for where in ("month(week) = '2024-04'", "month(week) > '2024-04'", "year(week) = 2024"):
        with pytest.raises(PeriodNotSealedError):
            chosen(where, grown)


def test_the_dataset_is_not_what_extract_takes_its_part_from() -> None:
    text = "SELECT extract(YEAR FROM seen), COUNT(*) FROM t WHERE EXTRACT(MONTH FROM seen) = 3"
    assert dataset_of(text) == "t"


def test_describe_tells_the_kinds_and_the_levels() -> None:
    rows = [row.group for row in parse_catalogue("DESCRIBE t")]
    assert rows == [
        ("smoker", "text", "3", "labels of codes"),
        ("stage", "text", "3", "labels of codes"),
        ("grade", "text", "3", "labels of codes"),
        ("district", "text", "4", "labels"),
        ("seen", "date", "367", "date by day"),
        ("month", "date", "60", "date by month"),
        ("region", "text", "3", "level of district"),
        ("land", "text", "2", "level of district"),
    ]
    text = "SELECT column_name FROM information_schema.columns WHERE data_type = 'text'"
    assert ("region",) in [row.group for row in parse_catalogue(text)]


def parse_catalogue(text: str) -> Any:
    from qserver.query.sql.tables.catalogue import catalogue_statement

    found = catalogue_statement(text, DOMAIN, dataset="t")
    assert found is not None
    return found.rows
