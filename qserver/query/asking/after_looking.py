"""The choice of a question after looking at released numbers, and the interval's ends for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from qserver.errors import InputError

Rule = Literal["largest", "least", "any"]
"""`largest`, `least`: among the first in that order. `any`: by whatever was seen."""
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_AMONG = 10**9


@dataclass(frozen=True)
class Selection:
    """A choice among released numbers.

    Args:
        m: number of numbers looked at.
        rule: rule of the choice.
        first: number of largest or least ones that are reported and hold at once. With `any` all m
            hold at once, and it stays 1.

    Raises:
        InputError: a value is out of range; names the field and says how to mend it.
    """

    m: int
    rule: Rule = field(default="largest", metadata={"always": True})
    first: int = field(default=1, metadata={"always": True})

    def __post_init__(self) -> None:
        if not _is_whole(self.m) or not 1 <= self.m <= MOST_AMONG:
            raise InputError(
                "m",
                f"be a whole number from 1 to {MOST_AMONG:,}",
                self.m,
                hint="It says how many numbers were looked at.",
            )
        if self.rule not in RULES:
            raise InputError("rule", "be `largest`, `least` or `any`", self.rule)
        if not _is_whole(self.first) or not 1 <= self.first <= self.m:
            raise InputError(
                "first",
                f"be a whole number from 1 to `m`, which is {self.m:,}",
                self.first,
                hint="It says how many of the m are reported.",
            )
        if self.rule == "any" and self.first != 1:
            raise InputError(
                "first",
                "be left out where `rule` is `any`",
                self.first,
                hint="All of the m then hold at once.",
            )


def chosen_text(selection: Selection | None) -> str:
    """The choice that an interval allows for, as the end of a sentence; '' for none."""
    if selection is None:
        return ""
    m = f"{selection.m:,}"
    if selection.rule == "any":
        return f", whichever of {m} was chosen"
    which = selection.rule if selection.first == 1 else f"{selection.first:,} {selection.rule}"
    return f", as the {which} of {m}" if selection.first == 1 else f", all of the {which} of {m}"


@dataclass(frozen=True)
class Looking:
    """The looks of a question's asker; none by default.

    Args:
        selected_from: the choice behind the question; it lengthens the interval.
        independent: measure it with fresh noise, never combined with earlier releases, so that the
            interval holds after any look.

    Raises:
        InputError: both are given.
    """

    selected_from: Selection | None = None
    independent: bool = False

    def __post_init__(self) -> None:
        if self.independent and self.selected_from is not None:
            raise InputError(
                "independent",
                "be left out, or else `selected_from`",
                hint="Noise drawn after the choice needs no longer interval.",
            )


NOTHING_SEEN = Looking()


@dataclass(frozen=True)
class Ends:
    """One-sided ends of a number's posterior, rounded outward.

    Args:
        estimate: the released number; distances are measured from it.
        low, high: each is passed with probability (1 - c) / 2k at most, where c is the confidence
            of the number and k how many numbers are reported.
        lowest, highest: each is passed with probability (1 - c) / 2m at most, where m is how many
            numbers were looked at.
    """

    estimate: float
    low: float
    high: float
    lowest: float
    highest: float


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
