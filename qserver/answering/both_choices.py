"""What both choices of an asker cost, and what the dearer one buys."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from qserver.answering.replica import Replica
from qserver.answering.retired import period_retired
from qserver.errors import CapacityError
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.query.domain import Domain
from qserver.query.looking import Looking
from qserver.query.question import Question
from qserver.records.answer import BothChoices
from qserver.records.plan import PlannedTable

_MOST_NAMED = 3


def choices_of_question(replica: Replica, question: Question, plan: Plan) -> BothChoices:
    """The prices of a question under both choices.

    Args:
        plan: of the question as it was asked.
    """
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
    """The price of questions, each with fresh noise by itself; None where none can be had."""
    fresh = [question.with_looking(Looking(independent=True)) for question in questions]
    with contextlib.suppress(CapacityError):
        plans = [replica.plan(question) for question in fresh]
        if any(period_retired(plan, replica) for plan in plans):
            return None
        [plan] = plans if len(plans) == 1 else [_together(replica, plans)]
        return replica.price_nano(plan)
    return None


def _together(replica: Replica, plans: Sequence[Plan]) -> Plan:
    """The plan that measures the rows of all these."""
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
