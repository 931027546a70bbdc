"""Sums of quantiles, extremes and numbers of groups, each told by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.answering.order.groups import Groups, GroupsAsked, GroupsKnown
from qserver.answering.order.quantiles import QuantileAsked, QuantileKnown
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import State
from qserver.query.linear import LinearQuery
from qserver.query.sql.combined.function import Order
from qserver.query.sql.combined.group_count import Passing
from qserver.query.sql.combined.thresholds import QuantileOf
from qserver.records.statement import Statement, joined

TermAsked = QuantileAsked | GroupsAsked
TermKnown = QuantileKnown | GroupsKnown


@dataclass(frozen=True)
class Term:
    """One of the numbers that are summed, as exactly as it is asked.

    Args:
        number: of the same kind as what is asked.
    """

    asked: TermAsked
    number: Quantile | Groups

    def state(self, known: TermKnown) -> State:
        """Whether it is to be measured further, by what is known of it."""
        if isinstance(self.number, Quantile):
            return known.state(self.number) if isinstance(known, QuantileKnown) else "met"
        return known.state(self.number) if isinstance(known, GroupsKnown) else "met"

    def next_halves(self, known: TermKnown) -> tuple[float, ...]:
        """The half-widths to ask its own counts for now, if it is open.

        The number of values behind a quantile follows from tables: it is asked for nothing.
        """
        if isinstance(self.number, Groups) and isinstance(known, GroupsKnown):
            is_open = known.state(self.number) == "open"
            return known.next_halves(self.number) if is_open else known.halves
        return (math.inf,)

    def last_halves(self, known: TermKnown) -> tuple[float, ...]:
        """Those that suffice, or are asked at most."""
        if isinstance(self.number, Quantile) or self.state(known) != "open":
            return known.halves
        return tuple(min(half, self.number.least_half) for half in known.halves)

    def rate(self, known: TermKnown) -> float:
        """The loss of a record by a count that is asked for next, in epsilon; 0 by a table."""
        halves = self.next_halves(known)
        return self.number.unit / min(halves) if self.state(known) == "open" else 0.0


@dataclass(frozen=True)
class OrderOf:
    """A sum of numbers, each times a factor, plus a number, and the confidence of its interval.

    Each may miss with its part of what the sum may miss with.
    """

    terms: tuple[tuple[Fraction, TermAsked], ...]
    by: Fraction
    confidence: float

    @classmethod
    def of(cls, order: Order, queries: Sequence[LinearQuery], confidence: float) -> OrderOf:
        """The number of these queries, by which its terms are told."""
        own, terms = 1.0 - (1.0 - confidence) / len(order.terms), []
        for factor, place, of in order.terms:
            term: TermAsked
            if isinstance(of, QuantileOf):
                term = QuantileAsked(queries[place], of, own)
            elif isinstance(of, Passing):
                term = GroupsAsked(tuple(queries[place : place + of.n_counts]), of, own)
            terms.append((factor, term))
        return cls(tuple(terms), order.by, confidence)

    def numbers(self, half_width: float, least: float) -> list[Term]:
        """Its terms, as exactly as they are sought.

        Where WITHIN is about counts, it is the same of all terms.
        """
        found = []
        for factor, one in self.terms:
            shared = len(self.terms) * float(abs(factor)) if one.of.has_steps else 1.0
            found.append(Term(one, one.number(half_width / shared, least)))
        return found


@dataclass(frozen=True)
class OrderKnown:
    """What is known of a sum, by each of its terms.

    Args:
        estimate: None where nothing beyond what is public is known of a term.
    """

    estimate: float | None
    low: float
    high: float
    parts: tuple[TermKnown, ...]

    @classmethod
    def of(cls, one: OrderOf, parts: Sequence[TermKnown]) -> OrderKnown:
        """By what is known of each term."""
        low = high = middle = one.by
        is_told = True
        for (factor, _), known in zip(one.terms, parts, strict=True):
            ends = known.ends
            least, most = sorted((factor * ends.low, factor * ends.high))
            low, high, middle = low + least, high + most, middle + factor * (ends.middle or 0)
            is_told = is_told and ends.middle is not None
        rounded = float(low), float(high)
        return cls(
            float(middle) if is_told else None,
            math.nextafter(rounded[0], -math.inf) if rounded[0] > low else rounded[0],
            math.nextafter(rounded[1], math.inf) if rounded[1] < high else rounded[1],
            tuple(parts),
        )

    @property
    def is_known(self) -> bool:
        """Whether history says something of all terms."""
        return all(part.is_known for part in self.parts)

    @property
    def statement(self) -> Statement:
        """What its interval is one of."""
        return joined([part.statement for part in self.parts])

    def state(self, numbers: Sequence[Term]) -> State:
        """Whether the number, as exactly as it is asked, is to be measured further."""
        found = [term.state(part) for part, term in zip(self.parts, numbers, strict=True)]
        if "open" in found:
            return "open"
        return "few" if "few" in found else "met"
