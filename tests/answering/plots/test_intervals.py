"""Numbers on the bands of their intervals."""

from __future__ import annotations

from math import inf, nan

import pytest

from qserver.answering.plots.intervals import IntervalChart, Panel, Row, svg_of_intervals
from qserver.errors import InputError
from tests.answering.plots.test_plots import NASTY, SVG, assert_nothing_overlaps, parsed

COUNTS = Panel("n", (Row("a", 50.0, 0.0, 100.0, "50"), Row("b", None, -inf, 25.0, "-")))


def bands(*panels: Panel) -> list[tuple[float, float]]:
    """Left and right end of each band."""
    root = parsed(svg_of_intervals(IntervalChart("t", "d", panels)))
    found = [(float(r.get("x", nan)), float(r.get("width", nan))) for r in root.iter(f"{SVG}rect")]
    return [(left, left + width) for left, width in found]


def test_a_band_goes_from_end_to_end_with_the_estimate_on_it() -> None:
    root = parsed(svg_of_intervals(IntervalChart("t", "d", (COUNTS,))))
    [dot] = root.iter(f"{SVG}circle")
    (low, high), (edge, quarter) = bands(COUNTS)
    assert float(dot.get("cx", nan)) == pytest.approx((low + high) / 2, abs=0.02)
    assert edge == low  # an open end
    assert quarter == pytest.approx(low + (high - low) / 4, abs=0.02)


def test_zero_is_on_the_axis_where_it_takes_at_most_half_of_it() -> None:
    def ends(low: float, high: float) -> tuple[float, float]:
        return Panel("n", (Row("a", low, low, high, ""),)).ends()

    assert ends(10, 20)[0] == 0
    assert ends(11, 20)[0] == pytest.approx(11 - 0.04 * 9)
    assert ends(-20, -10)[1] == 0
    assert ends(-5, 20) == pytest.approx((-6, 21))
    assert ends(7, 7) == pytest.approx((7 - 0.28, 7.28))
    assert ends(0, 0) == (-0.04, 0.04)
    assert Panel("n", (Row("a", None, -inf, inf, ""),)).ends() == (0, 1.04)


@pytest.mark.parametrize("width", [360.0, 680.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 123456.0])
def test_no_text_is_written_over_another_or_over_the_edge(width: float, scale: float) -> None:
    rows = tuple(
        Row(f"a value of a long name {i}" * i, i * scale, -scale, 9 * scale, f"{i * scale:,} [a]")
        for i in range(6)
    )
    chart = IntervalChart("A title " * 9, "d", (Panel("n " * 90, rows),) * 2, ("a note " * 30,))
    assert_nothing_overlaps(parsed(svg_of_intervals(chart, width=width)))
    nameless = Panel("", (Row("", 5e5, 1e5 * scale, 9e5 * scale, "5"),))
    assert_nothing_overlaps(parsed(svg_of_intervals(IntervalChart("t", "d", (nameless,)))))


def test_names_are_text_never_markup() -> None:
    row = Row(NASTY, 1.0, 0.0, 2.0, NASTY)
    root = parsed(svg_of_intervals(IntervalChart(NASTY, NASTY, (Panel(NASTY, (row,)),), (NASTY,))))
    heard = 'a<b & "c"�]]>�'
    assert [root.findtext(f"{SVG}{tag}") for tag in ("title", "desc")] == [heard, heard]
    assert [t.text for t in root.iter(f"{SVG}text")].count(heard) >= 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Row("a", 1.0, 2.0, 1.0, ""),
        lambda: Row("a", nan, 0.0, 1.0, ""),
        lambda: Row("a", 1.0, nan, 1.0, ""),
        lambda: Panel("n", ()),
        lambda: IntervalChart("t", "d", ()),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()
