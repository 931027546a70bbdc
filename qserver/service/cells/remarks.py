"""Remarks on a table, the same for all faces: longer intervals, their law, and all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qserver.answering.remarks import longer, remark_on
from qserver.answering.workload import KnownNumber
from qserver.query.sql.cells import CellQuestions, StatementQuestions
from qserver.query.sql.exactness import Exactness, least_base
from qserver.query.sql.functions.function_of_sums import Combined
from qserver.query.sql.statement import Cell, Ratio, Sum
from qserver.records.answer import Answer, WorkloadAnswer
from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import LookedNumber, cost_text, laws_text, looking_text

if TYPE_CHECKING:
    from qserver.service.cells.stepwise_cells import SearchedCells

_ROUNDING = 1e-6


@dataclass(frozen=True)
class ReachedLength:
    """The asked half-width of a number and the reached one; infinite if open.

    Args:
        cell: its place in the table.
    """

    cell: CellQuestions
    asked: float
    reached: float

    @property
    def is_longer(self) -> bool:
        """Whether the interval is longer than asked."""
        return self.reached > self.asked * (1.0 + _ROUNDING)


def with_remark(
    questions: StatementQuestions,
    cells: Sequence[Sequence[AnsweredCell]],
    *,
    searched: SearchedCells,
    rest_nano: int | None = None,
) -> StatementQuestions:
    """The questions of a statement that remarks on intervals longer than asked, and why.

    Args:
        cells: of the whole table, with the intervals of each number by itself.
        searched: the numbers of the statement that are measured step by step.
        rest_nano: price of what is still to be measured, where the quote did not pay it.
    """
    reached = list(_reached(questions, cells))
    longer = [one for one in reached if one.is_longer]
    told = [(one, searched.is_few(one.cell, one.asked)) for one in longer]
    few = [one for one, has_few in told if has_few]
    others, statement = [one for one, has_few in told if not has_few], questions.statement
    of_one_bin = [one for one in others if searched.is_met(one.cell, one.asked)]
    others = [one for one in others if one not in of_one_bin]
    remarks = list[str]()
    if few:
        least = least_base(statement.clauses.assuming, 0.0)
        remarks.append(_too_few(few, len(reached), least))
    if of_one_bin:
        remarks.append(
            f"{_longer(of_one_bin, len(reached))}: the values of a bin are not told apart."
        )
    if others:
        remarks.append(f"{_longer(others, len(reached))}{_more(rest_nano)}")
    n_far = sum(searched.is_far(one.cell) for one in reached if one not in few)
    if n_far:
        remarks.append(_far_from_linear(n_far, len(reached)))
    by_counts = list(_by_counts(questions))
    n_open = sum(searched.is_open(*one) for one in by_counts)
    if n_open:
        remarks.append(f"{_passed_over(n_open, len(by_counts))}{_used_up(rest_nano)}")
    said = replace(statement, remarks=(*statement.remarks, *remarks))
    return replace(questions, statement=said) if remarks else questions


def _too_few(found: Sequence[ReachedLength], m: int, least: float) -> str:
    n = len(found)
    which = "Too few records" if m == 1 else f"{n} of {m} numbers: too few records"
    return (
        f"{which}, surely under {least:,.10g} (ASSUMING AT LEAST), so they are measured no "
        f"further: {_lengths(found)}. A smaller ASSUMING AT LEAST measures more."
    )


def _far_from_linear(n: int, m: int) -> str:
    which = "The number is" if m == 1 else f"{n} of {m} numbers {'is' if n == 1 else 'are'}"
    return (
        f"{which} far from linear within the noise of the sums behind {'it' if n == 1 else 'them'}"
        ". The interval allows for that; more exact sums would make it much shorter."
    )


def _longer(found: Sequence[ReachedLength], m: int) -> str:
    n = len(found)
    which = "The interval is" if m == 1 else f"{n} of {m} intervals {'is' if n == 1 else 'are'}"
    return f"{which} longer than asked, {_lengths(found)}"


def _passed_over(n: int, m: int) -> str:
    which = "The number is" if m == 1 else f"{n} of {m} numbers {'is' if n == 1 else 'are'}"
    return (
        f"{which} based on counts that are less exact than WITHIN asks, so it may pass over more "
        "than twice as many records"
    )


def _lengths(found: Sequence[ReachedLength]) -> str:
    worst = max(found, key=lambda one: one.reached / one.asked)
    return f"up to {_half(worst.reached)} in place of {_half(worst.asked)}"


def _more(rest_nano: int | None) -> str:
    if rest_nano is None:
        return ". A smaller ASSUMING AT LEAST measures more; EXPLAIN shows the price."
    return f"{_used_up(rest_nano)[:-1]}, with another WITHIN or ASSUMING AT LEAST."


def _used_up(rest_nano: int | None) -> str:
    if rest_nano is None:
        return "."
    return (
        f". The quoted price is spent, and the rest would cost {cost_text(rest_nano / 1e9)} "
        "epsilon."
    )


def _half(half_width: float) -> str:
    return "no end" if half_width == float("inf") else f"±{half_width:,.4g}"


def _reached(
    questions: StatementQuestions, cells: Sequence[Sequence[AnsweredCell]]
) -> Iterator[ReachedLength]:
    """The reached length of each number that is asked in steps."""
    statement = questions.statement
    for row, asking, answered in zip(statement.rows, questions.cells, cells, strict=True):
        for k, (cell, found) in enumerate(zip(row.cells, answered, strict=False)):
            asked = _asked(cell, statement.exactness_of(k), found)
            if asked is not None:
                low, high = found.value.interval.low, found.value.interval.high
                is_open = low is None or high is None
                half = float("inf") if is_open else ((high or 0.0) - (low or 0.0)) / 2.0
                yield ReachedLength(asking[k], asked, half)


def _by_counts(questions: StatementQuestions) -> Iterator[tuple[CellQuestions, float]]:
    """The numbers whose WITHIN is about the counts behind them, and that WITHIN."""
    statement = questions.statement
    for row, asking in zip(statement.rows, questions.cells, strict=True):
        for k, cell in enumerate(row.cells):
            half_width = statement.exactness_of(k).half_width
            if isinstance(cell, Combined) and not cell.function.has_steps and half_width:
                yield asking[k], float(half_width)


def _asked(cell: Cell, exact: Exactness, found: AnsweredCell) -> float | None:
    """The asked half-width of a number; None where WITHIN bounds the sums behind it."""
    if isinstance(cell, Combined) and not cell.function.has_steps:
        return None
    if exact.part is not None and found.value.estimate:
        return float(exact.part) * abs(found.value.estimate)
    if isinstance(cell, Sum) or exact.half_width is None:
        return None
    return float(exact.half_width)


def with_lengths(
    questions: StatementQuestions, found: Answer | WorkloadAnswer
) -> StatementQuestions:
    """The questions of a statement that remarks on plain numbers longer than asked.

    Lengths are written as half-widths, as WITHIN has them. What is asked in steps has no length of
    its own to be held to.
    """
    answers = found.answers if isinstance(found, WorkloadAnswer) else (found,)
    each = [longer(*pair) for pair in zip(questions.questions, answers, strict=True)]
    plain = _plain(questions)
    is_all = all(one is None or i in plain for i, one in enumerate(each))
    said = remark_on(
        [each[i] for i in plain],
        together=found.simultaneous if isinstance(found, WorkloadAnswer) else None,
        rest_nano=found.rest_nano if is_all else None,
        halves=True,
    )
    return _with(questions, said)


def with_known_lengths(
    questions: StatementQuestions, known: Sequence[KnownNumber | None]
) -> StatementQuestions:
    """The same before anything was asked, for the numbers known at no cost."""
    numbers = [(questions.questions[i], known[i]) for i in _plain(questions)]
    each = [
        longer(question, one.answer, is_met=one.meets(question))
        for question, one in numbers
        if one is not None
    ]
    return _with(questions, remark_on(each, halves=True))


def _with(questions: StatementQuestions, said: tuple[str, ...]) -> StatementQuestions:
    statement = questions.statement
    return replace(questions, statement=replace(statement, remarks=(*statement.remarks, *said)))


def _plain(questions: StatementQuestions) -> list[int]:
    """Places of the questions whose lengths the text asks for."""
    statement, found = questions.statement, set[int]()
    for row, cells in zip(statement.rows, questions.cells, strict=True):
        for k, (cell, asked) in enumerate(zip(row.cells, cells, strict=True)):
            in_steps = isinstance(cell, Combined) and not questions.simultaneous
            in_steps = in_steps or (isinstance(cell, Combined) and cell.function.has_steps)
            if not (isinstance(cell, Ratio) or in_steps or statement.exactness_of(k).part):
                found.update(asked.parts)
    return sorted(found)


def said_beside(found: StatementAnswer) -> tuple[str, ...]:
    """A line on looking at all numbers and a line on their law, where either applies."""
    cells = [cell for row in found.cells for cell in row]
    told = [cell.statement for cell in cells if cell.statement is not None]
    laws = laws_text(
        [one.law for one in told],
        error=max((one.error for one in told), default=0.0),
        disagreements=max((one.disagreements for one in told), default=0),
    )
    return tuple(line for line in (looking_text(looked_numbers(found), n=len(cells)), laws) if line)


def looked_numbers(found: StatementAnswer) -> list[LookedNumber]:
    """The lengths of the intervals of all numbers that also have intervals after looking."""
    pairs = (_looked_number(cell) for row in found.cells for cell in row)
    return [one for one in pairs if one is not None]


def _looked_number(cell: AnsweredCell) -> LookedNumber | None:
    estimate, ends, looked = cell.value.estimate, cell.value.interval, cell.after_looking
    if estimate is None or ends.low is None or ends.high is None or looked is None:
        return None
    all_ends = [looked.at_once.low, looked.at_once.high, looked.largest.low, looked.largest.high]
    all_low, all_high, top_low, top_high = (math.nan if end is None else end for end in all_ends)
    lengths = ends.high - ends.low, all_high - all_low
    return LookedNumber(*lengths, (estimate - top_low, top_high - estimate))
