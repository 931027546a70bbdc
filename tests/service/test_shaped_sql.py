"""HAVING, ORDER BY and LIMIT on a real deployment: rows, prices, intervals that allow for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.portal.pages.sql import known_view
from qserver.service.statement_answers import AnsweredCell, CellReading, StatementAnswer
from qserver.service.statements import Statements
from tests.deployment import ROWS, Deployment
from tests.service.test_statements import SURE, answered, explained, spent

BY_AGE = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
WITHIN = "WITHIN 20"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def estimates(found: StatementAnswer, column: int = 0) -> list[float]:
    values = [row[column].value.estimate for row in found.cells]
    assert None not in values
    return [value for value in values if value is not None]


def groups(found: StatementAnswer) -> list[str]:
    return [str(row.group[0]) for row in found.asked.statement.rows]


def by_group(found: StatementAnswer) -> dict[str, tuple[AnsweredCell, ...]]:
    return dict(zip(groups(found), found.cells, strict=True))


def reading(cell: AnsweredCell) -> CellReading:
    assert cell.after_looking is not None
    return cell.after_looking


def test_the_first_rows_have_the_intervals_of_the_largest_among_all(town: Deployment) -> None:
    whole = answered(town, f"{BY_AGE} {WITHIN}")
    before = spent(town)
    named = answered(town, f"{BY_AGE} {WITHIN} AS LARGEST 3 OF 11")
    found = answered(town, f"{BY_AGE} ORDER BY n DESC LIMIT 3 {WITHIN}")
    assert spent(town) == before
    assert estimates(found) == sorted(estimates(whole), reverse=True)[:3]
    assert len(whole.cells) == 11
    for group, (cell,) in by_group(found).items():
        assert cell.value == by_group(named)[group][0].value
        assert cell.after_looking is None
    assert found.asked.statement.clauses.looking.selected_from is not None


def test_the_least_come_first_without_desc(town: Deployment) -> None:
    whole = answered(town, f"{BY_AGE} {WITHIN}")
    found = answered(town, f"{BY_AGE} ORDER BY n FETCH FIRST ROW ONLY {WITHIN}")
    [(group, (cell,))] = by_group(found).items()
    named = estimates(whole)[:-1]  # whose age is missing is no choice
    assert estimates(found) == [min(named)]
    assert cell.value.interval == reading(by_group(whole)[group][0]).least


def test_rows_that_having_leaves_have_intervals_for_any_choice(town: Deployment) -> None:
    whole = answered(town, f"{BY_AGE} {WITHIN}")
    middle = sorted(estimates(whole))[5]
    having = f"HAVING COUNT(*) >= {middle - 1e-3:.6f}"
    found = answered(town, f"{BY_AGE} {having} ORDER BY age DESC {WITHIN}")
    kept = [g for g, (cell,) in by_group(whole).items() if (cell.value.estimate or 0) >= middle]
    assert groups(found) == kept[::-1]
    for group, (cell,) in by_group(found).items():
        assert cell.value.interval == reading(by_group(whole)[group][0]).at_once


def test_an_order_that_shows_all_rows_chooses_none(town: Deployment) -> None:
    whole = answered(town, f"{BY_AGE} {WITHIN}")
    found = answered(town, f"{BY_AGE} ORDER BY n DESC {WITHIN}")
    assert estimates(found) == sorted(estimates(whole), reverse=True)
    assert by_group(found) == by_group(whole)


def test_other_columns_of_chosen_rows_have_intervals_for_any_choice(town: Deployment) -> None:
    """A row that is the largest by its count is any by its sum."""
    text = "SELECT age, COUNT(*) AS n, SUM(age) WITHIN 20 FROM people GROUP BY age"
    whole = answered(town, f"{text} {WITHIN}")
    found = answered(town, f"{text} ORDER BY n DESC LIMIT 1 {WITHIN}")
    [(group, (count, total))] = by_group(found).items()
    readings = [reading(cell) for cell in by_group(whole)[group]]
    # The table by itself has readings among all of its 22 numbers, so these are shorter.
    for cell, wider in zip((count, total), (readings[0].largest, readings[1].at_once), strict=True):
        ends = cell.value.interval
        assert ends.low is not None
        assert ends.high is not None
        assert wider.low is not None
        assert wider.high is not None
        assert wider.low < ends.low
        assert ends.high <= wider.high
    low, high = count.value.interval.low, count.value.interval.high
    estimate = count.value.estimate
    assert low is not None
    assert high is not None
    assert estimate is not None
    assert high - estimate < estimate - low
    middle = total.value.estimate
    low, high = total.value.interval.low, total.value.interval.high
    assert low is not None
    assert high is not None
    assert middle is not None
    assert high - middle == pytest.approx(middle - low)


def test_the_price_is_that_of_the_whole_table(town: Deployment) -> None:
    whole = explained(town, f"{BY_AGE} {WITHIN}")
    few = explained(town, f"{BY_AGE} HAVING n > 9 ORDER BY n DESC LIMIT 1 {WITHIN}")
    assert few.price_nano == whole.price_nano > 0
    assert len(few.known) == len(whole.known) == 11
    answered(town, f"{BY_AGE} HAVING n > 9 ORDER BY n DESC LIMIT 1 {WITHIN}")
    assert spent(town) == whole.price_nano
    assert explained(town, f"{BY_AGE} {WITHIN}").price_nano == 0


def test_a_public_order_measures_only_what_it_shows(town: Deployment) -> None:
    text = f"{BY_AGE} ORDER BY age DESC LIMIT 2 {WITHIN} ONLY THIS"
    price = explained(town, text)
    assert len(price.asked.questions) == 2
    found = answered(town, text)
    assert len(found.cells) == 2
    assert all(cell.after_looking is not None for (cell,) in found.cells)
    assert spent(town) == price.price_nano


def test_groups_of_an_expression_hold_their_truth(town: Deployment) -> None:
    text = (
        "SELECT CASE WHEN age < 23 THEN 'young' ELSE 'old' END AS stage, COUNT(*) FROM people "
        f"WHERE sex IS NOT NULL GROUP BY stage ORDER BY 2 DESC LIMIT 1 WITHIN 30 {SURE}"
    )
    found = answered(town, text)
    assert found.asked.statement.groups == ("stage",)
    names = ["young" if age < 23 else "old" for age, sex in ROWS if sex in ("Female", "Male")]
    truths = {name: names.count(name) for name in names}
    [(group, (cell,))] = by_group(found).items()
    ends = cell.value.interval
    assert ends.low is not None
    assert ends.high is not None
    assert ends.low <= truths[group] <= ends.high


@pytest.mark.slow
def test_averages_are_ordered_and_their_intervals_hold_for_any_choice(town: Deployment) -> None:
    text = "SELECT sex, AVG(age) AS a FROM people WHERE sex <> 'other' GROUP BY sex"
    tail = f"WITHIN 1 {SURE} ASSUMING AT LEAST 100"
    whole = answered(town, f"{text} {tail}")
    found = answered(town, f"{text} ORDER BY a DESC NULLS LAST LIMIT 1 {tail}")
    assert estimates(found) == [max(estimates(whole))]
    [(group, (cell,))] = by_group(found).items()
    plain = by_group(whole)[group][0].value.interval
    assert cell.value.interval.low is not None
    assert plain.low is not None
    assert cell.value.interval.low <= plain.low


def test_all_at_once_allows_for_every_choice_already(town: Deployment) -> None:
    whole = answered(town, f"{BY_AGE} {WITHIN} SIMULTANEOUS")
    found = answered(town, f"{BY_AGE} ORDER BY n DESC LIMIT 2 {WITHIN} SIMULTANEOUS")
    assert found.simultaneous is not None
    for group, cells in by_group(found).items():
        assert cells == by_group(whole)[group]


def test_the_portal_shows_the_same_rows_and_waits_until_all_are_known(town: Deployment) -> None:
    text = f"{BY_AGE} ORDER BY n DESC LIMIT 2 {WITHIN}"
    service = town.service()
    statement = explained(town, text).asked.statement
    unknown = known_view(service, "people", statement, query="").answer
    assert len(unknown.cells) == 11
    found = answered(town, text)
    shown = known_view(town.service(), "people", statement, query="").answer
    assert groups(shown) == groups(found)
    for (cell,), (same,) in zip(shown.cells, found.cells, strict=True):
        assert cell.value.interval.low == pytest.approx(same.value.interval.low)
        assert cell.value.interval.high == pytest.approx(same.value.interval.high)


def test_a_statement_that_chooses_none_shows_no_row(town: Deployment) -> None:
    found = Statements(town.service())
    assert answered(town, f"{BY_AGE} HAVING n > 1000000 {WITHIN}").cells == ()
    assert found.explain("people", explained(town, f"{BY_AGE} {WITHIN}").asked.statement).known


def test_a_rounded_number_has_its_interval_outward(town: Deployment) -> None:
    sums = "COUNT(*), SUM(age * 0.37) WITHIN 20"
    whole = answered(town, f"SELECT sex, {sums} FROM people GROUP BY sex {WITHIN}")
    few = "ROUND(COUNT(*), -1) AS n, CAST(SUM(age * 0.37) AS INTEGER) WITHIN 20"
    found = answered(town, f"SELECT sex, {few} FROM people GROUP BY sex ORDER BY n {WITHIN}")
    assert found.charged_nano == 0
    assert estimates(found) == sorted(estimates(found))
    for group, cells in by_group(found).items():
        for cell, exact, step in zip(cells, by_group(whole)[group], (10, 1), strict=True):
            value, plain = cell.value, exact.value
            assert None not in (value.estimate, value.interval.low, value.interval.high)
            assert None not in (plain.estimate, plain.interval.low, plain.interval.high)
            shown = (value.estimate or 0, value.interval.low or 0, value.interval.high or 0)
            true = (plain.estimate or 0, plain.interval.low or 0, plain.interval.high or 0)
            assert all(number % step == 0 for number in shown)
            assert abs(shown[0] - true[0]) <= step / 2
            assert 0 <= true[1] - shown[1] < step
            assert 0 <= shown[2] - true[2] < step
            assert (reading(cell).largest.low or 0) <= (reading(exact).largest.low or 0)


def test_one_number_may_be_rounded(town: Deployment) -> None:
    [[cell]] = answered(town, f"SELECT COALESCE(COUNT(*), 0) FROM people {WITHIN}").cells
    [[tens]] = answered(town, f"SELECT ROUND(COUNT(*), -1) FROM people {WITHIN}").cells
    assert cell.value.estimate is not None
    assert tens.value.estimate is not None
    assert tens.value.estimate % 10 == 0
    assert abs(tens.value.estimate - cell.value.estimate) <= 5
