"""Tables over periods are drawn as lines with the bands of their intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from qserver.portal.drawing import MOST_PANELS, Number, OverTime, over_time
from qserver.query.sql.statement import Course, Row
from tests.growing import Growing, week
from tests.portal.portal_site import PEOPLE, Browser, browser_on

COURSE = Course(0, ("W1", "W2", "W3", "W4", "W5"))
Group = tuple[str | None, ...]


def drawn(rows: Sequence[tuple[Group, Number]], course: Course = COURSE) -> OverTime:
    found = over_time("n", course, [_row(group) for group, _ in rows], [n for _, n in rows])
    assert found is not None
    return found


def _row(group: Group) -> Row:
    """A row in which None stands for all values together."""
    return Row(group, (), tuple(k for k, name in enumerate(group) if name is None))


def about(value: float) -> Number:
    return value, value - 10, value + 10


def test_points_stand_where_their_periods_and_values_are() -> None:
    found = drawn([(("W1",), about(10)), (("W2",), about(90)), (("W4",), about(50))])
    (panel,) = found.panels
    assert panel.name == ""
    assert [dot.x for dot in panel.dots] == [0, 33.33, 100]
    # From 0 to 100, with a hundredth of room above.
    assert [dot.y for dot in panel.dots] == pytest.approx([100 - 10 / 1.01, 10.89, 50.5], abs=0.01)
    assert panel.dots[0].text == "W1: 10.0, 0.0 to 20.0"
    assert panel.text == "n over time: 10.0, 0.0 to 20.0 in W1 to 50.0, 40.0 to 60.0 in W4"


def test_rows_in_any_order_give_the_same_line() -> None:
    rows: list[tuple[Group, Number]] = [((f"W{i}",), about(i)) for i in range(1, 6)]
    assert drawn(rows[::-1]) == drawn(rows)


def test_line_breaks_where_a_period_is_missing_or_unknown() -> None:
    unknown: Number = (None, None, None)
    numbers = [about(1), about(2), unknown, about(4), about(5)]
    whole = drawn([((f"W{i}",), about(i)) for i in range(1, 6)])
    broken = drawn([((f"W{i + 1}",), number) for i, number in enumerate(numbers)])
    assert not whole.is_broken
    assert broken.is_broken
    assert [run.line.count(",") for run in broken.panels[0].runs] == [2, 2]
    alone = drawn([(("W1",), about(1)), (("W3",), about(3))])
    assert [run.is_single for run in alone.panels[0].runs] == [True, True]


def test_band_goes_along_the_upper_ends_and_back_along_the_lower_ones() -> None:
    (run,) = drawn([(("W1",), (50, 0, 100)), (("W2",), (50, None, None))]).panels[0].runs
    corners = [tuple(map(float, corner.split(","))) for corner in run.band.split()]
    assert [x for x, _ in corners] == [0, 1000, 1000, 0]
    assert [y for _, y in corners] == pytest.approx([9.9, 0, 1000, 1000], abs=0.1)


def test_scale_has_zero_where_that_takes_at_most_half_of_the_height() -> None:
    near = drawn([(("W1",), about(60)), (("W2",), about(110))])
    far = drawn([(("W1",), about(1_000)), (("W2",), about(1_100))])
    assert "0" in [tick.text for tick in near.y_ticks]
    assert [tick.text for tick in far.y_ticks] == ["1,000", "1,050", "1,100"]


def test_every_other_group_has_a_panel_of_the_same_scale_and_totals_have_none() -> None:
    course = Course(1, ("W1", "W2"))
    rows: list[tuple[Group, Number]] = [
        ((sex, period), about(value))
        for sex, value in (("F", 20), ("M", 80), (None, 9_000))
        for period in ("W1", "W2", None)
    ]
    found = drawn(rows, course)
    assert [panel.name for panel in found.panels] == ["F", "M"]
    assert found.panels[0].dots[0].y > 75 > 25 > found.panels[1].dots[0].y
    totals = drawn(rows[6:], course)
    assert [panel.name for panel in totals.panels] == ["(all)"]


def test_only_so_many_groups_are_drawn_and_the_rest_is_counted() -> None:
    rows: list[tuple[Group, Number]] = [
        ((period, str(i)), about(i)) for i in range(MOST_PANELS + 3) for period in ("W1", "W2")
    ]
    found = drawn(rows)
    assert (len(found.panels), found.n_hidden) == (MOST_PANELS, 3)


def test_one_period_is_no_line() -> None:
    rows = [Row(("W1", sex), ()) for sex in ("F", "M")]
    assert over_time("n", COURSE, rows, [about(1), about(2)]) is None


def test_a_group_of_missing_values_has_a_panel_and_is_no_total() -> None:
    rows = [Row((period, sex), ()) for sex in ("F", None) for period in ("W1", "W2")]
    found = over_time("n", COURSE, rows, [about(i) for i in range(4)])
    assert found is not None
    assert [panel.name for panel in found.panels] == ["F", "NULL"]


def test_long_courses_name_few_periods_and_fewer_on_a_phone() -> None:
    names = tuple(f"2024-W{i:02}" for i in range(1, 53))
    found = drawn([((name,), about(5)) for name in names], Course(0, names))
    assert len(found.x_ticks) == 9
    assert sum(not tick.is_minor for tick in found.x_ticks) == 3


@pytest.fixture
def weekly(tmp_path: Path, store_url: str) -> Browser:
    """A browser on a server whose data arrive by weeks."""
    return browser_on(Growing.begin(tmp_path, store_url), is_open=True)


def answer_page(browser: Browser, text: str) -> str:
    fields = {"text": text, "length": "80", "confidence": "90"}
    response = browser.post(f"{PEOPLE}/ask", fields)
    assert response.status_code == 303, response.text
    browser.town.work_off()
    return browser.text(f"{PEOPLE}/answer?{urlencode(fields)}")


@pytest.mark.slow
def test_table_over_periods_is_a_line_and_any_other_has_bars(weekly: Browser) -> None:
    page = answer_page(weekly, "SELECT week, COUNT(*) AS n FROM people GROUP BY week")
    assert page.count('class="over-time"') == 1
    assert page.count("<polygon") == page.count("<polyline") == 1
    assert page.count("<circle") == 3
    assert 'class="whisker"' not in page
    # The table is still there for those who cannot see the line.
    assert re.findall(r'<th scope="row">([^<]*)</th>', page) == [week(0), week(1), week(2)]
    page = answer_page(weekly, "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex")
    assert 'class="over-time"' not in page
    assert page.count('class="whisker"') == 3
