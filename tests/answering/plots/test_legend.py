"""Where the entries of a legend stand: in rows from the top, each as full as it can be."""

from __future__ import annotations

import re

import pytest

from qserver.answering.plots.chart import (
    COLOURS,
    DASHES,
    LINE_HEIGHT,
    drawn_legend,
    legend_entries,
    legend_height,
    styles_of,
    text_width,
)

MARK, BETWEEN = 32.0, 18.0
"""A sample with its gap, and what stands between two entries."""


@pytest.mark.parametrize("n", [1, 2, 5])
def test_names_that_have_room_stand_in_one_row_from_the_left(n: int) -> None:
    names = [f"mark {i}" for i in range(n)]
    entries = legend_entries(names, styles_of([False] * n), width=10_000)
    widths = [MARK + text_width(name) + BETWEEN for name in names]
    assert [entry.label for entry in entries] == names
    assert [entry.row for entry in entries] == [0] * n
    assert [entry.x for entry in entries] == pytest.approx([sum(widths[:i]) for i in range(n)])
    assert legend_height(entries) == LINE_HEIGHT


def test_the_next_row_begins_where_a_name_has_no_room() -> None:
    """Two of three have just room; a little less and there are three rows."""
    names, one = ["aaa"] * 3, MARK + text_width("aaa")
    styles = styles_of([False] * 3)
    just = legend_entries(names, styles, width=2 * one + BETWEEN)
    assert [(entry.row, entry.x) for entry in just] == [(0, 0.0), (0, one + BETWEEN), (1, 0.0)]
    less = legend_entries(names, styles, width=2 * one + BETWEEN - 0.1)
    assert [(entry.row, entry.x) for entry in less] == [(0, 0.0), (1, 0.0), (2, 0.0)]
    assert (legend_height(just), legend_height(less)) == (2 * LINE_HEIGHT, 3 * LINE_HEIGHT)


def test_a_name_that_is_wider_than_a_row_is_shortened_and_stands_alone() -> None:
    [first, long] = legend_entries(["a", "b" * 99], styles_of([False] * 2), width=150)
    assert (first.label, first.row, long.row, long.x) == ("a", 0, 1, 0.0)
    assert long.label != "b" * 99
    assert MARK + text_width(long.label) <= 150
    assert legend_entries([], [], width=150) == []
    assert legend_height([]) == 0


def test_entries_are_drawn_in_the_middle_of_their_rows() -> None:
    entries = legend_entries(["a", "b"], styles_of([False, True]), width=MARK + text_width("a"))
    line, first, area, second = drawn_legend(entries, left=5, top=40)
    middles = [40 + LINE_HEIGHT / 2, 40 + 3 * LINE_HEIGHT / 2]
    assert _numbers(line, "x1", "x2", "y1", "y2") == [5, 31, middles[0], middles[0]]
    assert _numbers(area, "x", "y", "width", "height") == [5, middles[1] - 6, 26, 12]
    assert [_numbers(text, "x", "y") for text in (first, second)] == [
        [37, middles[0] + 4.5],
        [37, middles[1] + 4.5],
    ]


def _numbers(element: str, *names: str) -> list[float]:
    found = [re.search(rf' {name}="([^"]+)"', element) for name in names]
    return [float(one[1]) for one in found if one is not None]


def test_colours_go_round_over_all_marks_and_dashes_over_lines() -> None:
    kinds = [False, True, False, False, True, False, False, False]
    styles = styles_of(kinds)
    assert [style.colour for style in styles] == [*COLOURS, *COLOURS[:2]]
    assert [style.dash for style in styles if not style.is_area] == [*DASHES]
    assert {style.dash for style in styles if style.is_area} == {None}
