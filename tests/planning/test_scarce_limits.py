"""Blocks that cost more than the row are bought only where the limit could pay their base."""

from __future__ import annotations

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from tests.benchmarks.scarce_limits import STREAMS, answered

BOXES = STREAMS[1]
ASKED = BOXES.questions(6)


def answered_under(limit: float) -> tuple[int, int]:
    """By rows alone, and by the rule."""
    return (
        answered(BOXES.sizes, ASKED, rule=None, limit=limit),
        answered(BOXES.sizes, ASKED, rule=RentOrBuy(), limit=limit),
    )


def test_a_limit_below_the_price_of_the_base_answers_as_by_rows() -> None:
    """Parts of a base that it cannot pay would answer 27, where rows answer 38."""
    by_rows, by_rule = answered_under(0.45)
    assert by_rows < len(ASKED)
    assert by_rule >= 0.95 * by_rows


def test_a_limit_above_it_answers_more() -> None:
    by_rows, by_rule = answered_under(0.9)
    assert by_rule > by_rows
