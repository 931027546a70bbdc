"""What both choices of an asker cost, and what the dearer one buys."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from qserver.answering.replica import Replica
from qserver.answering.retired import period_retired
from qserver.errors import CapacityError
from qserver.planning.planner import Plan
from qserver.query.domain import Domain
from qserver.query.looking import Looking
from qserver.query.question import Question
from qserver.records.answer import Answer, BothChoices
from qserver.records.plan import PlannedTable

_MOST_NAMED = 3
_LONGER = 1.0 + 1e-6


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


def independent_nano(replica: Replica, question: Question) -> int | None:
    """The price of the question with fresh noise by itself; None where none can be had."""
    with contextlib.suppress(CapacityError):
        plan = replica.plan(question.with_looking(Looking(independent=True)))
        return None if period_retired(plan, replica) else replica.price_nano(plan)
    return None


def rest_nano(replica: Replica, question: Question, answer: Answer) -> int | None:
    """What fresh noise of the asked length costs, where the answer's interval is longer."""
    return independent_nano(replica, question) if leaves_rest(question, answer) else None


def leaves_rest(question: Question, answer: Answer) -> bool:
    """Whether an answer's interval is longer than was asked, by what fresh noise may buy off."""
    reach = question.requirement.length * _LONGER
    if answer.selected_from is not None or answer.high - answer.low <= reach:
        return False
    # What the numerical error of a method adds is not to be bought off.
    return answer.statement.method == "auto"


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
