"""How much may be measured for a question: its own needs only, or also those of later ones."""

from __future__ import annotations

from typing import Literal, get_args

from qserver.errors import InputError

Measure = Literal["auto", "only_this"]
"""`auto`: the planner may buy tables that later questions use as well. `only_this`: rows for this
question alone, with the help of whatever was released before."""
MEASURES: tuple[Measure, ...] = get_args(Measure)

DEFAULT_PHI = 0.4
"""Least waste by single rows, as a part of a base's price, at which its blocks are bought.

And the part of own rows' price that is risked for blocks which settled within one scope alone.
"""


def measure_of(value: object) -> Measure:
    """The choice that a text names.

    Raises:
        InputError: it names none.
    """
    for known in MEASURES:
        if value == known:
            return known
    raise InputError("measure", "be `auto` or `only_this`", value)
