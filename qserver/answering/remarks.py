"""Remarks for the asker of a plain answer: the one home of sentences that every face shows.

It may count records with missing values, and it may be longer than asked. A price is for the asked
length of the estimate's error. Given what released answers disagree about, the interval may be
longer. The sentence has what was asked, what is reached, how surely the asked length holds, and
what the rest would cost. An asker who may choose is told what both choices cost.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final

from qserver.answering.answer import period_retired
from qserver.answering.replica import Replica
from qserver.answering.workload import MOST_OFFERED
from qserver.errors import CapacityError
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.query.asking.after_looking import NOTHING_SEEN, Looking
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery, Term, linear_query
from qserver.query.question import Question, Workload
from qserver.query.weights import Weights
from qserver.records.answer import Answer, BothChoices, WorkloadAnswer
from qserver.records.plan import PlannedTable
from qserver.records.statement import Simultaneous
from qserver.text import ADDS_NOTHING, cost_text

_MOST_NAMED = 3


def choices_of_question(replica: Replica, question: Question, plan: Plan) -> BothChoices:
    """The prices of a question under both choices; `plan`: of the question as asked."""
    if question.measure == "only_this":
        only, auto = plan, replica.plan(question.with_measure("auto"))
    else:
        only, auto = replica.plan(question.with_measure("only_this")), plan
    return BothChoices(
        chosen=question.measure or "auto",
        only_this_nano=replica.price_nano(only),
        auto_nano=replica.price_nano(auto),
        buys=tables_in_words(replica.meta.domain, auto.tables),
        independent_nano=independent_nano(replica, question),
    )


def independent_nano(replica: Replica, *questions: Question) -> int | None:
    """The price of questions, each by itself with fresh noise; None if impossible."""
    fresh = [question.with_looking(Looking(independent=True)) for question in questions]
    with contextlib.suppress(CapacityError):
        plans = [replica.plan(question) for question in fresh]
        if any(period_retired(plan, replica) for plan in plans):
            return None
        [plan] = plans if len(plans) == 1 else [_together(replica, plans)]
        return replica.price_nano(plan)
    return None


def _together(replica: Replica, plans: Sequence[Plan]) -> Plan:
    """The plan that measures the rows of all these plans."""
    rows = tuple(row for plan in plans for row in plan.rows)
    priced = replica.holdings.priced(Purchase(rows))
    return Plan("fresh", rows, priced.price_nano, priced.spent_after_nano, None)


def tables_in_words(domain: Domain, tables: Sequence[PlannedTable]) -> str:
    """Tables by their attributes, such as `2 tables: age (74 cells); age by sex (148 cells)`."""
    if not tables:
        return ""
    found = [_in_words(domain, table) for table in tables[:_MOST_NAMED]]
    more = len(tables) - len(found)
    found += [f"{more} more"] if more else []
    return f"{len(tables)} table{'s' * (len(tables) > 1)}: {'; '.join(found)}"


def _in_words(domain: Domain, table: PlannedTable) -> str:
    names = [domain.names[axis.axis] for axis in table.partition.axes]
    n = table.partition.n_cells
    return f"{' by '.join(names) or 'the total'} ({n:,} cell{'s' * (n > 1)})"


_ROUNDING: Final = 1e-6
_DIGITS: Final = 4
DISAGREEING: Final = "what released answers disagree about"
"""What makes an interval longer that was paid for; fresh noise would not."""


@dataclass(frozen=True)
class Longer:
    """An interval that is longer than asked.

    Args:
        asked, reached: its lengths.
        attained: probability of the best interval of the asked length.
        by: what makes it longer.
    """

    asked: float
    reached: float
    attained: float
    by: str = DISAGREEING


def longer(question: Question, answer: Answer, *, is_met: bool = True) -> Longer | None:
    """The excess of an answer's length; None if it has none, or if a choice causes it.

    Args:
        is_met: whether it is as exact as asked, but for what released answers disagree about; else
            it is only what is known at no cost.
    """
    asked, reached = question.requirement.length, answer.high - answer.low
    if answer.selected_from is not None or reached <= asked * (1.0 + _ROUNDING):
        return None
    found = Longer(asked, reached, answer.confidence_attained)
    if not is_met:
        return replace(found, by="what is known at no cost")
    return found if answer.statement.method == "auto" else replace(found, by="its method's error")


def is_refined(asked: Question | Workload) -> bool:
    """Whether a paid answer is refined if disagreements make it longer than asked.

    It is not where a choice, or all intervals at once, make it longer, nor in a step.
    """
    if isinstance(asked, Question):
        return asked.looking == NOTHING_SEEN
    return not (asked.simultaneous or asked.selected_from or asked.as_drawn)


def room_nano(asked: Question | Workload, price_nano: int, *, n_history: int) -> int:
    """The most that refining a paid answer may cost: its price again, so that a quote is easy to
    state.

    Args:
        n_history: events of the history that it was planned on. Nothing disagrees with the first.
    """
    return price_nano if n_history and is_refined(asked) else 0


def told(replica: Replica, question: Question, answer: Answer, *, is_met: bool = True) -> Answer:
    """The answer with its remarks, on the replica's present state.

    Args:
        is_met: as of `longer`.
    """
    found, rest, said = longer(question, answer, is_met=is_met), None, tuple[str, ...]()
    if found is not None:
        rest = independent_nano(replica, question) if found.by == DISAGREEING else None
        said = (sentence([found], 1, rest_nano=rest),)
    domain = replica.meta.domain
    missing = remarks_on_missing(domain, kept_missing(question.query, domain))
    return replace(answer, rest_nano=rest, remarks=(*said, *missing))


def told_of_all(replica: Replica, workload: Workload, found: WorkloadAnswer) -> WorkloadAnswer:
    """The answers of a workload with their remarks, as `told`.

    Where all intervals hold at once, or very many are longer, nothing says what the rest costs.
    """
    asked = workload.questions
    places = [i for i, pair in enumerate(zip(asked, found.answers, strict=True)) if longer(*pair)]
    if places and not workload.simultaneous and len(places) <= MOST_OFFERED:
        answers = list(found.answers)
        for i in places:
            answers[i] = replace(answers[i], rest_nano=independent_nano(replica, asked[i]))
        rest = independent_nano(replica, *(asked[i] for i in places))
        found = replace(found, answers=tuple(answers), rest_nano=rest)
    said = remark_on(
        [longer(*pair) for pair in zip(asked, found.answers, strict=True)],
        together=found.simultaneous,
        rest_nano=found.rest_nano,
    )
    domain = replica.meta.domain
    axes = (axis for question in asked for axis in kept_missing(question.query, domain))
    return replace(found, remarks=(*said, *remarks_on_missing(domain, axes)))


def remark_on(
    each: Sequence[Longer | None],
    *,
    together: Simultaneous | None = None,
    rest_nano: int | None = None,
    halves: bool = False,
) -> tuple[str, ...]:
    """A remark that some of these answers are longer than asked; none if none is.

    Args:
        each: of each answer by how much it is.
        together: that all hold at once, where it was asked for.
        rest_nano, halves: as of `sentence`.
    """
    known = [one for one in each if one is not None]
    if together is not None and (attained := together.attained) is not None:
        known = [replace(one, attained=attained) for one in known]
    if not known:
        return ()
    return (sentence(known, len(each), rest_nano=rest_nano, halves=halves),)


def sentence(
    found: Sequence[Longer], n: int, *, rest_nano: int | None, halves: bool = False
) -> str:
    """A sentence: of `n` intervals these are longer than asked, and the price of the rest.

    Args:
        found: at least one.
        rest_nano: price of fresh noise for all of them; None where that is not known.
        halves: whether lengths are written as half-widths.
    """
    worst = max(found, key=lambda one: one.reached / one.asked)
    is_or_are = "is" if len(found) == 1 else "are"
    which = "The interval is" if n == 1 else f"{len(found):,} of {n:,} intervals {is_or_are}"
    up_to = "" if len(found) == 1 else "up to "
    lengths = f"{up_to}{_length(worst.reached, halves)} in place of {_length(worst.asked, halves)}"
    percent = f"{math.floor(worst.attained * 1000) / 10:g} percent"
    rest = ""
    if rest_nano is not None:
        whose, it = ("", "it") if len(found) == 1 else (" for all of them", "each")
        price = f"for {cost_text(rest_nano / 1e9)} epsilon" if rest_nano else f"and {ADDS_NOTHING}"
        rest = f"; fresh noise (`independent`){whose} would make {it} as short as asked {price}"
    return f"{which} longer than asked by {worst.by}: {lengths}, which holds with {percent}{rest}."


def _length(length: float, halves: bool) -> str:  # noqa: FBT001 - how it is written
    """A length to four digits, rounded up; as a half-width where the asker uses these."""
    value = Decimal(repr(length)) / (2 if halves else 1)
    unit = Decimal(1).scaleb(min(value.adjusted() - _DIGITS + 1, 0))
    # A thousandth of the last digit is rounding of floats.
    shown = (value - unit / 1000).quantize(unit, ROUND_CEILING).normalize()
    return f"{'±' if halves else ''}{shown:,f}"


def kept_missing(query: LinearQuery, domain: Domain) -> Iterator[int]:
    """Attributes of a query whose missing values count with others.

    A condition such as `sex <> 'x'` keeps records without a known sex; most databases would drop
    them. Domain and question alone decide that.
    """
    for axis in query.scope:
        attribute = domain.attributes[axis]
        if attribute.missing == "other" and _keeps(query, axis, attribute.n_regular):
            yield axis


def remarks_on_missing(domain: Domain, axes: Iterable[int]) -> tuple[str, ...]:
    """One sentence for each attribute whose missing values count."""
    attributes = [domain.attributes[axis] for axis in sorted(set(axes))]
    return tuple(
        f"Records without a value of `{one.name}` count, too, as `{one.other}`: the question does "
        "not leave them out."
        for one in attributes
    )


def _keeps(query: LinearQuery, axis: int, missing: int) -> bool:
    if all(_is_only(term.by_axis.get(axis), missing) for term in query.terms):
        return False  # the question asks for the missing ones
    if all(_is_without(term.by_axis.get(axis), missing) for term in query.terms):
        return False
    among = linear_query(query.sizes, (_at_value(term, axis, missing) for term in query.terms))
    return not among.is_zero


def _at_value(term: Term, axis: int, value: int) -> tuple[Fraction, dict[int, Weights]]:
    """A term on the records with one value of an attribute."""
    others = dict(term.by_axis)
    own = others.pop(axis, None)
    return term.coefficient * (1 if own is None else own.at(value)), others


def _is_only(weights: Weights | None, value: int) -> bool:
    """Whether only the last value has weight."""
    return weights is not None and weights.stops[:-1] == (value,) and weights.values[0] == 0


def _is_without(weights: Weights | None, value: int) -> bool:
    """Whether weights are 0 at a value."""
    return weights is not None and weights.at(value) == 0
