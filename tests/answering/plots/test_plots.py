"""Plots as SVG: well-formed, escaped, labelled, nothing written over anything else."""

from __future__ import annotations

import re
from itertools import combinations
from math import exp
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.answering.plots.chart import (
    COLOURS,
    Area,
    Axis,
    Chart,
    Line,
    Rule,
    nice_ticks,
    svg_of,
    text_width,
    wrapped,
)
from qserver.answering.plots.figures import (
    Bar,
    BarChart,
    BudgetFacts,
    PosteriorCurve,
    budget_chart,
    posterior_chart,
    svg_of_bars,
    thresholds_about,
)
from qserver.errors import InputError

SVG = "{http://www.w3.org/2000/svg}"
NASTY = 'a<b & "c"\x00]]>\ud800'
ends = st.floats(-1e9, 1e9)


def chart(title: str = "A title", marks: tuple[Line | Area | Rule, ...] | None = None) -> Chart:
    lines = (
        Area("an area", (0, 1), (0, 0), (1, 2)),
        Line("a line", (0, 5, 10), (0, 3, -1)),
        Rule("a rule", x=3.0),
        Line("steps", (0, 5), (1, 2), steps=True),
    )
    return Chart(title, "What it says.", Axis("x", 0, 10), Axis("y", -1, 4), marks or lines)


@given(ends, st.floats(1e-6, 1e9), st.integers(2, 12))
def test_ticks_are_few_nice_evenly_spaced_and_inside(low: float, width: float, most: int) -> None:
    high = low + width
    if not high > low or width < 1e-9 * abs(low):
        return
    ticks = nice_ticks(low, high, most=most)
    assert len(ticks.values) <= most
    slack = 1e-6 * width
    assert all(low - slack <= v <= high + slack for v in ticks.values)
    for first, second in zip(ticks.values, ticks.values[1:], strict=False):
        assert re.fullmatch(r"[125]", f"{second - first:.0e}"[0])
    assert len(set(ticks.texts)) == len(ticks.texts)


@given(ends, st.floats(1e-3, 1e9))
def test_an_axis_of_seven_ticks_has_two_at_least(low: float, width: float) -> None:
    assert len(nice_ticks(low, low + width, most=7).values) >= 2


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ("0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        (12290, 12390, ("12,300", "12,320", "12,340", "12,360", "12,380")),
        (-3, 3, ("-3", "-2", "-1", "0", "1", "2", "3")),
        (0, 3e8, ("0", "5e7", "1.0e8", "1.5e8", "2.0e8", "2.5e8", "3.0e8")),
        (0, 4e-6, ("0", "1e-6", "2e-6", "3e-6", "4e-6")),
    ],
)
def test_texts_of_ticks_have_the_digits_they_need(
    low: float, high: float, texts: tuple[str, ...]
) -> None:
    assert nice_ticks(low, high, most=7).texts == texts


@pytest.mark.parametrize("pair", [(1, 1), (2, 1), (0, float("inf")), (1e20, 1e20 + 32768)])
def test_an_axis_without_extent_is_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="high"):
        nice_ticks(*pair, most=5)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def boxes(root: ElementTree.Element) -> list[tuple[float, float, float, float, str]]:
    """Where each text is, by the widths that a wide font has."""
    found = []
    for item in root.iter(f"{SVG}text"):
        size = float(item.get("font-size", 13))
        words = item.text or ""
        width = text_width(words, size=size) * 0.9
        anchor = item.get("text-anchor", "start")
        left = float(item.get("x", 0)) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        y = float(item.get("y", 0))
        found.append((left, y - 0.75 * size, left + width, y + 0.2 * size, words))
    return found


def assert_nothing_overlaps(root: ElementTree.Element) -> None:
    placed = boxes(root)
    assert len(placed) >= 3
    for a, b in combinations(placed, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a, b)
    width, height = (float(root.get(side, 0)) for side in ("width", "height"))
    for box in placed:
        assert min(box[:2]) >= 0, box
        assert (box[2] <= width, box[3] <= height) == (True, True), box


@pytest.mark.parametrize("width", [360.0, 680.0, 1200.0])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 123456.0])
def test_no_text_is_written_over_another_or_over_the_edge(width: float, scale: float) -> None:
    marks = tuple(Line(f"a series with quite a long name {i}", (0, 1), (0, 1)) for i in range(5))
    wide = Chart("A title " * 12, "d", Axis("x " * 60, 0, scale), Axis("y " * 90, 0, scale), marks)
    assert_nothing_overlaps(parsed(svg_of(wide, width=width)))


@pytest.mark.parametrize("width", [360.0, 680.0])
def test_no_text_of_bars_is_written_over_another(width: float) -> None:
    bars = tuple(Bar(f"a value of a long name {i}" * i, i / 9, f"{i / 9:.4g}") for i in range(1, 9))
    drawn = svg_of_bars(BarChart("A title " * 9, "d", bars, 1.0, "limit 1 epsilon"), width=width)
    assert_nothing_overlaps(parsed(drawn))


def test_the_overlap_test_would_see_an_overlap() -> None:
    root = parsed(svg_of(chart()))
    texts = list(root.iter(f"{SVG}text"))
    texts[-1].set("x", texts[-2].get("x", ""))
    texts[-1].set("y", texts[-2].get("y", ""))
    with pytest.raises(AssertionError):
        assert_nothing_overlaps(root)


def test_a_reader_hears_title_and_description_first() -> None:
    root = parsed(svg_of(chart()))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "A title. What it says."
    assert [root.findtext(f"{SVG}{tag}") for tag in ("title", "desc")] == [
        "A title",
        "What it says.",
    ]


def test_names_are_text_never_markup() -> None:
    root = parsed(svg_of(chart(NASTY, (Line(NASTY, (0, 1), (0, 1)),))))
    heard = 'a<b & "c"�]]>�'
    assert root.findtext(f"{SVG}title") == heard
    assert heard in [t.text for t in root.iter(f"{SVG}text")]


def test_text_and_axes_take_the_colour_of_the_page() -> None:
    """Nothing is black or white but the background."""
    drawn = svg_of(chart())
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn)) == {
        "currentColor",
        "none",
        *COLOURS[:4],
    }
    assert "prefers-color-scheme:dark" in drawn


def contrast(colour: str, ground: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(text: str) -> float:
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("ground", ["#ffffff", "#0d1117"])
def test_every_colour_can_be_seen_on_light_and_on_dark(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3.0


def test_a_point_is_drawn_where_the_axes_say() -> None:
    """The line's ends are the corners that the axes' own path has."""
    line = Line("l", (0, 10), (-1, 4))
    root = parsed(svg_of(Chart("t", "d", Axis("x", 0, 10), Axis("y", -1, 4), (line,))))
    axes, drawn = (p.get("d", "") for p in root.iter(f"{SVG}path"))
    top_left, bottom_left, bottom_right = axes[1:].split(" L")
    corner = f"{bottom_right.split()[0]} {top_left.split()[1]}"
    assert drawn[1:].split(" L") == [bottom_left, corner]


def test_steps_go_across_before_they_go_up() -> None:
    steps = Line("s", (0, 10), (0, 1), steps=True)
    root = parsed(svg_of(Chart("t", "d", Axis("x", 0, 10), Axis("y", 0, 1), (steps,))))
    points = [p.split() for p in list(root.iter(f"{SVG}path"))[1].get("d", "")[1:].split(" L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert (y1, x2) == (y0, x1)
    assert (x0, y2) != (x1, y0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Line("l", (0,), (0,)),
        lambda: Line("l", (0, 1), (0, float("nan"))),
        lambda: Area("a", (0, 1), (0, 1), (0,)),
        lambda: Rule("r"),
        lambda: Rule("r", x=1, y=1),
        lambda: Axis("a", 1, 1),
        lambda: BarChart("t", "d", (), 1.0, "l"),
        lambda: BarChart("t", "d", (Bar("a", -1, ""),), 1.0, "l"),
        lambda: BarChart("t", "d", (Bar("a", 1, ""),), 0.0, "l"),
        lambda: PosteriorCurve((1, 2), (1, 0), 1, 2, 0.9),
        lambda: PosteriorCurve((1, 3, 2), (1, 0.5, 0), 1, 2, 0.9),
        lambda: PosteriorCurve((1, 2, 3), (1, 0.5, 0), 2, 2, 0.9),
        lambda: posterior_chart(PosteriorCurve((1, 2, 3), (0, 0, 0), 1, 2, 0.9), title="t"),
        lambda: budget_chart(
            BudgetFacts("d", 1, 0, 1), dict.fromkeys(map(str, range(61)), 0.0), attribute="a"
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()


def test_a_posterior_has_the_density_that_its_tails_have_and_its_interval_shaded() -> None:
    """Of a logistic law: density from the derivative of the tail."""
    thresholds = thresholds_about(90, 110, n=201, reach=3)
    tails = [1 / (1 + exp(t - 100)) for t in thresholds]
    drawn = posterior_chart(PosteriorCurve(thresholds, tails, 97, 103, 0.9), title="t")
    area, line, rule = drawn.marks
    assert isinstance(line, Line)
    assert isinstance(area, Area)
    assert isinstance(rule, Rule)
    for x, density in zip(line.xs, line.ys, strict=True):
        tail = 1 / (1 + exp(x - 100))
        assert density == pytest.approx(tail * (1 - tail), rel=0.01, abs=1e-9)
    assert (area.xs[0], area.xs[-1], rule.x) == (97, 103, 100)
    assert max(area.high) == max(line.ys)


def test_the_bars_of_a_budget_are_as_long_as_their_part_of_the_limit() -> None:
    facts = BudgetFacts("adult", limit=2.0, spent=0.5, remaining=1.5)
    root = parsed(svg_of_bars(budget_chart(facts, {"a": 0.5, "b": 2.0, "c": 9.0}, attribute="x")))
    lengths = [float(r.get("width", 0)) for r in root.iter(f"{SVG}rect")]
    assert lengths[0] == pytest.approx(lengths[1] / 4, abs=0.02)
    assert lengths[2] == lengths[1]
    whole = budget_chart(facts, {}, attribute="")
    assert [(b.name, b.value) for b in whole.bars] == [("spent", 0.5), ("remaining", 1.5)]


@given(st.text("abc WM", max_size=80), st.floats(40, 300))
def test_no_line_is_wider_than_asked_and_no_word_is_lost(text: str, width: float) -> None:
    lines = wrapped(text, width=width)
    assert all(text_width(line) <= width for line in lines)
    if not any("…" in line for line in lines):
        assert " ".join(lines).split() == text.split()
