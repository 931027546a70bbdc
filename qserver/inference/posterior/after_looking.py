"""Intervals that hold for a number chosen after looking at many.

There are m released estimates y_j = q_j + e_j, and I is chosen by looking at them. An interval that
covers each q_j with probability c covers q_I less often: the largest y_j tends to have a large
error. Let d = (1 - c) / 2, let l_j(p) be the end with P(q_j < l_j(p)) = P(e_j > y_j - l_j(p)) <= p,
and u_j(p) the end with P(q_j > u_j(p)) <= p; both are y_j minus a quantile of e_j. Truths are
fixed and the e_j may depend on one another in any way, unless independence is named.

*Any choice.* All of [l_j(d/m), u_j(d/m)] hold at once with probability c, by the union bound. So
they hold for any choice and for any number of choices.

*The largest.* [l_I(d/m), u_I(d)], if no e_j has a longer lower tail than e_I.
  Below: P(q_I < l_I(d/m)) is at most the sum over j of P(q_j < l_j(d/m)), so at most d.
  Above: let j be the estimate with the greatest truth, which is fixed, and t the distance of u_I(d)
  from y_I. If q_I > y_I + t, then q_j >= q_I > y_I + t >= y_j + t. So e_j < -t, which has
  probability at most d.

*The first k of the largest, all at once.* [l_i(d/m), u_i(d/k)]. Let T be the k greatest truths. If
i is among the k largest estimates and q_i > y_i + t, then q_j > y_j + t for some j in T: for i
itself if i is in T; else one j of T is not among the k largest estimates, and y_j <= y_i < q_i - t
<= q_j - t. So the union bound over the k members of T is enough.

*The least.* The same for -q: above and below change places.

*Unequal laws.* Below, each has its own quantile. Above, the greatest distance from y_j to u_j(d/k)
counts for all (`table_readings`).

*Refined after the choice, independent errors.* The choice is made by y_j + z_j, where z_j is noise
independent of everything: an old answer is its refined one with noise added. Below, the proof is
the same, with the e_j of all m after such a refinement. Above, fix all e_j but e_i. The probability
that i is chosen rises with e_i, so being chosen makes a small e_i less probable, and P(i is chosen
and q_i > u_i(d/k)) <= P(i is chosen) d/k. The sum over i is at most k d/k. This needs neither equal
laws nor equal refinements, but an own noise of each cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from qserver.inference.estimate import CredibleInterval
from qserver.query.asking.after_looking import Ends, Rule, Selection


class Law(Protocol):
    """A posterior for the rule: an interval by itself, and one-sided ends."""

    @property
    def estimate(self) -> float:
        """The released estimate."""

    def interval(self, confidence: float) -> CredibleInterval:
        """An interval that holds by itself at `confidence`, rounded outward."""

    def low_at(self, probability: float) -> float:
        """Lower end: the answer is below with at most this probability, in (0, 1/2)."""

    def high_at(self, probability: float) -> float:
        """Upper end: the answer is above with at most this probability, in (0, 1/2)."""


def reading(law: Law, selection: Selection, *, confidence: float) -> CredibleInterval:
    """The interval of a chosen number at `confidence`, if the others have its law.

    With m = 1 it is the interval that holds by itself.
    """
    if selection.m == 1:
        return law.interval(confidence)
    tail = (1.0 - confidence) / 2
    among, reported = tail / selection.m, tail / selection.first
    below = reported if selection.rule == "least" else among
    above = reported if selection.rule == "largest" else among
    return CredibleInterval(low=law.low_at(below), high=law.high_at(above))


def ends_of(law: Law, *, confidence: float, m: int, first: int = 1) -> Ends:
    """The one-sided ends of one of m numbers if `first` are reported."""
    tail = (1.0 - confidence) / 2
    return Ends(
        estimate=law.estimate,
        low=law.low_at(tail / first),
        high=law.high_at(tail / first),
        lowest=law.low_at(tail / m),
        highest=law.high_at(tail / m),
    )


def rule_that_holds(rule: Rule, *, n_unknown: int, disagreements: int) -> Rule:
    """The rule whose interval holds for a number chosen by `rule`.

    The largest and the least use the laws of all m numbers; unknown ones are assumed equal to this
    one's. That is right for errors. Given disagreements, each number has its own law; then the rule
    for any choice holds.

    Args:
        n_unknown: number of the m numbers that are unknown.
        disagreements: number that the law counts.
    """
    return "any" if n_unknown > 0 and disagreements else rule


@dataclass(frozen=True)
class TableReading:
    """The intervals of one number of a table that hold after looking at the whole table.

    Args:
        at_once: holds jointly with those of all other numbers, so for any choice.
        largest: holds if the number is among the largest of its table that are reported.
        least: holds if it is among the least.
    """

    at_once: CredibleInterval
    largest: CredibleInterval
    least: CredibleInterval

    def by(self, rule: Rule) -> CredibleInterval:
        """The interval that holds for a choice by this rule."""
        return {"any": self.at_once, "largest": self.largest, "least": self.least}[rule]


def table_readings(ends: Sequence[Ends]) -> list[TableReading]:
    """Intervals of each number of a table that hold after looking at all.

    Args:
        ends: for the same m and the same number of reported ones. If confidences differ, statements
            hold at the least.
    """
    up = max((end.high - end.estimate for end in ends), default=0.0)
    down = max((end.estimate - end.low for end in ends), default=0.0)
    found = []
    for end in ends:
        # Both the difference and the sum were rounded.
        high = math.nextafter(end.estimate + math.nextafter(up, math.inf), math.inf)
        low = math.nextafter(end.estimate - math.nextafter(down, math.inf), -math.inf)
        found.append(
            TableReading(
                at_once=CredibleInterval(end.lowest, end.highest),
                largest=CredibleInterval(end.lowest, high),
                least=CredibleInterval(low, end.highest),
            )
        )
    return found
