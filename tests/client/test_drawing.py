"""Plots of answers and tables, as a notebook shows them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from qserver.client import Answer, Plot
from qserver.errors import ConfigError
from tests.client.test_results import ANSWER, table

SVG = "{http://www.w3.org/2000/svg}"


def texts(plot: Plot) -> list[str]:
    root = ElementTree.fromstring(plot._repr_svg_())
    return [item.text or "" for item in root.iter(f"{SVG}text")]


def test_an_answer_is_drawn_with_its_interval() -> None:
    plot = Answer.of(ANSWER).plot("Women")
    assert repr(plot) == "Plot(title='Women')"
    said = texts(plot)
    assert said[0] == "Women"
    assert "2,720  [2,670 to 2,771]" in said
    assert said[-1] == "The band is the interval with 95 percent confidence."
    spoken = ElementTree.fromstring(plot.svg).findtext(f"{SVG}desc")
    assert spoken == f"2,720  [2,670 to 2,771]. {said[-1]}"


def test_a_table_has_a_panel_for_each_column_and_a_row_for_each_group() -> None:
    said = texts(table(2).plot())
    assert said[0] == "n, n by <b>sex</b>"
    assert said.count("v0") == said.count("v1") == said.count("n") == 2
    assert said.count("5.00  [4.00 to 6.00]") == 2
    assert said.count("-  [-infinity to infinity]") == 2
    assert said[-1] == "Bands are intervals, each with 95 percent confidence."
    together = table(1, simultaneous={"confidence": 0.95}).plot("T")
    assert (texts(together)[0], texts(together)[-1]) == (
        "T",
        "Bands are intervals, all at once with 95 percent confidence.",
    )


def test_a_long_table_says_how_many_rows_are_not_shown() -> None:
    said = texts(table(43).plot())
    assert ("v39" in said, "v40" in said) == (True, False)
    assert said[-1] == "3 more rows."


def test_what_has_no_numbers_is_not_drawn() -> None:
    for empty in (table(0), table(1, columns=[], rows=[{"group": ["a"], "cells": []}])):
        with pytest.raises(ConfigError, match="numbers"):
            empty.plot()


def test_a_plot_is_saved_as_svg_alone(tmp_path: Path) -> None:
    plot = Answer.of(ANSWER).plot()
    plot.save(tmp_path / "a.svg")
    plot.save(str(tmp_path / "a.svg"))
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == plot.svg
    with pytest.raises(ConfigError, match=r"end in \.svg"):
        plot.save(tmp_path / "a.png")
    with pytest.raises(ConfigError, match="be written"):
        plot.save(tmp_path / "none" / "a.svg")
