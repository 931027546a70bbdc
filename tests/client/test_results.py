"""Results read well, hold what the server said, and leave as records."""

from __future__ import annotations

import math
from typing import Any

import pytest

from qserver.client import Answer, Interval, Price, Table
from qserver.text import ADDS_NOTHING

ANSWER: dict[str, Any] = {
    "estimate": 2720.5,
    "interval": [2670.5, 2770.5],
    "confidence": 0.95,
    "confidence_attained": 0.96,
    "source": "measured",
    "epsilon_charged": 0.059914646,
    "epsilon_remaining": 1.940085354,
    "evidence": [0, 3],
    "version": 4,
    "weights": "direct",
    "statement": {"law": "posterior", "error": 0.0, "disagreements": 0},
}


def table(n_rows: int = 2, **members: Any) -> Table:
    cells = [
        {"estimate": 5.0, "interval": [4.0, 6.0], "source": "history", "binning": None},
        {"estimate": None, "interval": [None, None], "source": "measured", "binning": None},
    ]
    document = {
        "groups": ["<b>sex</b>"],
        "columns": ["n", "n"],
        "rows": [{"group": [f"v{i}"], "cells": cells} for i in range(n_rows)],
        "confidence": 0.95,
        "simultaneous": None,
        "epsilon_charged": 0.0,
        "epsilon_remaining": 1.5,
        "version": 4,
    }
    return Table.of({**document, **members})


def test_the_same_table_at_a_later_version_is_equal() -> None:
    """Versions rise with every answer on the dataset, whatever it is about."""
    assert table() == table(version=9)
    assert table() != table(epsilon_remaining=1.4)
    assert table() != table(n_rows=3)


def test_an_answer_reads_as_a_sentence() -> None:
    answer = Answer.of(ANSWER)
    assert repr(answer) == (
        "<Answer 2,720: between 2,670 and 2,771 with 95 percent confidence; "
        "cost 0.05991, 1.94 left>"
    )
    assert answer._repr_html_() == (
        "<p><b>2,720: between 2,670 and 2,771 with 95 percent confidence</b><br>"
        "measured; cost 0.05991, 1.94 left</p>"
    )
    assert (float(answer), 2700 in answer.interval, 2600 in answer.interval) == (
        2720.5,
        True,
        False,
    )
    assert answer.interval.half_width == 50
    assert answer.evidence == (0, 3)


@pytest.mark.parametrize(
    ("charged", "source", "said"),
    [
        (0.0, "history", "cost 0, 1.94 left"),
        (0.0, "exact", "cost 0, 1.94 left"),
        (0.0, "refined", f"cost 0 ({ADDS_NOTHING}), 1.94 left"),
        (0.25, "refined", "cost 0.25, 1.94 left"),
    ],
)
def test_a_cost_of_nothing_says_whether_somebody_was_charged(
    charged: float, source: str, said: str
) -> None:
    answer = Answer.of({**ANSWER, "epsilon_charged": charged, "source": source})
    assert repr(answer).endswith(f"; {said}>")


def test_a_table_reads_as_one_and_escapes_what_owners_named() -> None:
    shown = repr(table())
    assert shown.splitlines() == [
        "<b>sex</b>  n                     n",
        "v0          5.00  [4.00 to 6.00]  -  [-infinity to infinity]",
        "v1          5.00  [4.00 to 6.00]  -  [-infinity to infinity]",
        f"each with 95 percent confidence; cost 0 ({ADDS_NOTHING}), 1.5 left",
    ]
    page = table()._repr_html_()
    assert "<th>&lt;b&gt;sex&lt;/b&gt;</th>" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 3


def test_a_long_table_shows_its_first_rows_and_how_many_follow() -> None:
    lines = repr(table(n_rows=50)).splitlines()
    assert len(lines) == 1 + 20 + 2
    assert lines[-2] == "30 more rows"
    assert len(table(n_rows=50)) == 50


def test_records_name_each_column_once() -> None:
    [first, _] = table().records()
    assert list(first) == ["<b>sex</b>", "n", "n_low", "n_high", "n_2", "n_2_low", "n_2_high"]
    assert (first["n"], first["n_low"], first["n_high"]) == (5.0, 4.0, 6.0)
    assert math.isnan(first["n_2"])
    assert (first["n_2_low"], first["n_2_high"]) == (-math.inf, math.inf)


def test_cells_are_found_by_their_group() -> None:
    count, ratio = table()["v1"]  # type: ignore[misc]
    assert (count.estimate, count.interval) == (5.0, Interval(4.0, 6.0))
    assert math.isnan(ratio.estimate)
    with pytest.raises(KeyError):
        _ = table()["v2"]
    with pytest.raises(ValueError, match="unpack"):
        _ = table().only


def test_a_price_says_whether_it_can_be_paid() -> None:
    document = {
        "kind": "fresh",
        "price": 0.5,
        "remaining": 0.25,
        "affordable": False,
        "free": {"interval": [1.0, 2.0], "confidence": 0.95},
        "curve": [[50, 1.0], [100, 0.5], [1, None]],
        "version": 0,
    }
    price = Price.of(document)
    assert repr(price) == (
        "<Price 0.5 of 0.25 epsilon left, which is too much; 1 of 1 known at no cost>"
    )
    assert price.free == (Interval(1.0, 2.0),)
    assert price.curve == ((50, 1.0), (100, 0.5), (1, None))
    assert price._repr_html_().startswith("<p><b>0.5 of 0.25")


def looked(estimate: float, half: float) -> dict[str, Any]:
    low, high = estimate - 2 * half, estimate + 2 * half
    return {
        "estimate": estimate,
        "interval": [estimate - half, estimate + half],
        "source": "history",
        "binning": None,
        "after_looking": {
            "at_once": [low, high],
            "largest": [low, estimate + half],
            "least": [estimate - half, high],
        },
    }


def test_the_line_after_looking_gives_widths_or_how_many_times_they_are() -> None:
    rows = [{"group": [str(i)], "cells": [looked(10.0 * i, 5.0)]} for i in range(3)]
    assert table(columns=["n"], rows=rows).looking == (
        "Each holds alone. All 3 at once: +-10 for +-5. The largest: -10 +5."
    )
    uneven = [*rows, {"group": ["x"], "cells": [looked(7.0, 1.0)]}]
    assert table(columns=["n"], rows=uneven).looking == (
        "Each holds alone. All 4 at once: 2.0 times as long as printed. "
        "The largest: 1.5 times as long, mostly below."
    )
    assert table().looking == ""
