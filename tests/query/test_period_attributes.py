"""An attribute of kind `period`: in a domain file, and in conditions of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import DomainError, QueryError
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_loading import load_domain

WEEKS = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 520}
WAVES = {"name": "wave", "kind": "period", "labels": ["spring", "autumn", "winter"]}
SEX = {"name": "sex", "labels": ["F", "M"]}


def domain(*items: dict[str, Any]) -> Domain:
    return domain_from_document({"attributes": list(items)})


@pytest.mark.parametrize("item", [WEEKS, WAVES])
def test_document_of_periods_is_as_short_as_the_file_and_comes_back_equal(
    item: dict[str, Any],
) -> None:
    found = domain(item, SEX)
    document = json.loads(json.dumps(domain_to_document(found)))
    assert document["attributes"][0] == {**item, "outside": "drop", "missing": "drop"}
    assert domain_from_document(document) == found


def test_values_are_the_iso_texts_in_the_order_of_time() -> None:
    (week,) = domain(WEEKS).attributes
    assert (week.size, week.is_period, week.is_total) == (520, True, False)
    assert week.value_names[:2] == ("2024-W10", "2024-W11")
    assert week.value_names[-1] == "2034-W07"
    assert week.index_of_name("2026-W53") == week.index_of_name("2027-W01") - 1


def test_toml_dates_and_years_as_numbers_are_read_as_first(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    for unit, first in (("day", "2024-03-01"), ("year", "2024")):
        lines = f'name = "t"\nkind = "period"\nevery = "{unit}"\nfirst = {first}\ncount = 9'
        path.write_text(f"[[attributes]]\n{lines}\n")
        (found,) = load_domain(path).attributes
        assert found.value_names[0] == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"every": "fortnight"}, "every` must be one of `day`, `week`, `month`, `quarter`, `year`"),
        ({"every": ["week"]}, "every` must be one of"),
        ({"first": "2023-W53"}, "first` must be a week such as 2024-W10, got '2023-W53'. The last"),
        ({"first": "2024-03-01"}, "first` must be a week such as 2024-W10, got '2024-03-01'. 2024"),
        ({"first": None}, "first` must be a week such as 2024-W10, got None"),
        ({"count": 0}, "count` must be a whole number of 1 or more, got 0"),
        ({"count": True}, "count` must be a whole number of 1 or more"),
        ({"count": "9"}, "count` must be a whole number of 1 or more"),
        ({"count": 10**6}, "count` must be at most 416,107, so that the periods end with 9998"),
        ({"count": 10**30}, "count` must be at most 1,048,576"),
        ({"outside": "clamp"}, "outside` must be `drop` for kind `period`, got 'clamp'. A record"),
        ({"outside": "other"}, "outside` must be `drop` for kind `period`"),
        ({"missing": "other"}, "missing` must be `drop` for kind `period`"),
        ({"labels": ["a"]}, "every` must be absent where `labels` are given"),
        ({"edges": [1, 2]}, "edges` must be absent for kind `period`"),
        ({"kind": "labels"}, "every` must be absent for kind `labels`"),
    ],
)
def test_wrong_period_is_refused_by_its_place_and_the_fix(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DomainError) as caught:
        domain(SEX, {**WEEKS, **changes})
    assert str(caught.value).startswith(f"`attributes[1].{message}")


@pytest.mark.parametrize("lacking", ["every", "first", "count"])
def test_periods_need_unit_first_and_count(lacking: str) -> None:
    item = {key: value for key, value in WEEKS.items() if key != lacking}
    with pytest.raises(DomainError, match=rf"\[0\].{lacking}` must be given for kind `period`"):
        domain(item)


def test_labels_of_periods_are_given_once_and_one_attribute_has_them() -> None:
    with pytest.raises(
        DomainError, match=r"`attributes\[0\].labels\[2\]` must name each label once"
    ):
        domain({**WAVES, "labels": ["a", "b", "a"]})
    with pytest.raises(
        DomainError, match=r"\[1\].kind` must be `period` for at most one attribute. `week`"
    ):
        domain(WEEKS, WAVES)


def runs(condition: object) -> list[str]:
    """The weeks, of eight, that a condition of JSON selects."""
    found = domain({**WEEKS, "count": 8}, SEX)
    query = parse_query({"where": {"week": condition}}, found)
    (term,) = query.terms or (None,)
    if term is None:
        return []
    names = found.attributes[0].value_names
    weights = term.factors[0].weights.dense if term.factors else [1] * len(names)
    return [name for name, weight in zip(names, weights, strict=True) if weight]


@pytest.mark.parametrize(
    ("condition", "weeks"),
    [
        ({"between": ["2024-W10", "2024-W12"]}, range(10, 13)),
        ({"between": ["2024-03-04", "2024-03-17"]}, range(10, 12)),
        ({"between": ["2020", "2030"]}, range(10, 18)),
        ({"between": ["2024-W16", "2025-W01"]}, range(16, 18)),
        ({"below": "2024-W12"}, range(10, 12)),
        ({"below": "2024-03-18"}, range(10, 12)),
        ({"below": "2020-W01"}, range(0)),
        ({"at_least": "2024-W15"}, range(15, 18)),
        ({"at_least": "2024-04-08"}, range(15, 18)),
        ({"not": {"at_least": "2024-W11"}}, range(10, 11)),
        ({"last": 3}, range(15, 18)),
        ({"last": 99}, range(10, 18)),
        (["2024-W10", "2024-W11"], range(10, 12)),
        ("2024-W17", range(17, 18)),
        ("2024-03-04", range(10, 11)),
    ],
)
def test_condition_of_json_selects_whole_weeks(condition: object, weeks: range) -> None:
    assert runs(condition) == [f"2024-W{n}" for n in weeks]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"below": "2024-03-19"}, "2024-03-19 lies in 2024-W12, 2024-03-18 to 2024-03-24. Name"),
        ({"between": ["2024-W10", "2024-03-18"]}, "between[1]` must not cut through a period of"),
        ({"between": ["2024-W12", "2024-W10"]}, "between` must have low <= high, got"),
        ({"last": 0}, "last` must be a whole number > 0"),
        ({"last": "3"}, "last` must be a whole number > 0"),
        ({"between": ["2024-W12"]}, "between` must be a list of two periods [low, high]"),
        ("2024-03-05", "week` must be a period of `week`, got '2024-03-05'. 2024-03-05 lies in"),
        (["2024-W10", "2024-W30"], "week[1]` must be a period of `week`, got '2024-W30'. Its per"),
        ("week 10", "week` must be a week such as 2024-W10, or a date such as 2024-03-01, got"),
    ],
)
def test_condition_that_no_whole_weeks_meet_is_refused(condition: object, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        runs(condition)
    assert message in str(caught.value)


def test_labels_without_order_still_take_no_range() -> None:
    with pytest.raises(
        QueryError, match=r"be used on numbers, dates and periods; `sex` has labels"
    ):
        parse_query({"where": {"sex": {"below": "M"}}}, domain(SEX))
