"""The steps of one statement, bound by its quote."""

from __future__ import annotations

import math
from functools import cached_property

from qserver.errors import BudgetExhaustedError
from qserver.query.sql.cells import StatementQuestions
from qserver.query.sql.statement import Statement
from qserver.records.charge import NANO
from qserver.service.cells.answer_cells import step_of, without_smooth, workload_of
from qserver.service.quote_notes import StatementNote, digest_of
from qserver.service.service import Price, Service
from qserver.service.steps.statement import MOST_STEPS, StatementSteps

_ADVICE = (
    "Or add AT MOST and a number of epsilon: the statement is answered in steps, mostly costs far "
    "less, and stops there."
)


class CappedSteps:
    """The next questions of a statement, on one dataset, for one asker.

    Its quote is the price of asking all as exactly as the worst case needs, before its first step:
    at once, or the smooth numbers by rows as steps do; or what it says itself that it may be
    charged, where that is less. A step that would pass what is left of it is not taken: smooth
    numbers and quantiles that are too dear are left out of it, and all others are asked at once if
    that fits. The statement is then answered by what is known.
    """

    def __init__(self, service: Service, name: str, steps: StatementSteps, *, by: str) -> None:
        self._service, self._name, self._steps, self._by = service, name, steps, by
        self._at_most = steps.last_step()
        self._priced = steps.with_tables(self._at_most)
        self._digest = digest_of(self._at_most)
        self._note = service.notes.of(name, self._digest)
        self._n_taken, self._price, self._is_at_once, self._waits = 0, 0, False, False

    @property
    def is_answered(self) -> bool:
        """Whether an earlier request answered the statement, so that it costs nothing."""
        return self._note is not None and bool(self._note.lengths)

    @property
    def goes_on(self) -> bool:
        """Whether another step may measure more, before all numbers are as exact as asked."""
        return not self.is_answered and self._steps.goes_on

    @property
    def left_nano(self) -> int | None:
        """The most that the remaining steps may be charged; None before the first."""
        return None if self._note is None else self._note.left_nano

    @property
    def may_cost_nano(self) -> int | None:
        """The most that the next job may be charged; None for its price."""
        left = None if self._note is None else self._note.left_nano
        return left or at_most_nano(self._at_most.statement)

    @cached_property
    def quote(self) -> Price:
        """The price of all that may be asked, and whether the budget pays it at once."""
        price, most = self._worst, at_most_nano(self._at_most.statement)
        if most is None or price.nano <= most:
            return price
        left = self._service.dataset(self._name).remaining_nano
        return Price(most, is_payable=most <= left)

    @cached_property
    def _worst(self) -> Price:
        """The price of all at the exactness of the worst case."""
        at_once = self._service.price(self._name, workload_of(self._priced), by=self._by)
        by_rows = self._steps.by_rows
        if not at_once.is_payable or not by_rows:
            return at_once
        nano = self._service.smooth.price_nano(self._name, by_rows)
        if (rest := without_smooth(self._priced)) is not None:
            nano += self._service.price(self._name, rest, by=self._by).nano
        left = self._service.dataset(self._name).remaining_nano
        return Price(max(at_once.nano, min(nano, left)), is_payable=True)

    @property
    def quoted(self) -> StatementQuestions:
        """The questions of the quote: as they were answered, or all at once."""
        if self._note is not None and self._note.lengths:
            return self._note.as_answered(self._at_most)
        return self._priced

    def next_step(self, *, waits: bool = False) -> StatementQuestions | None:
        """The questions of the next step; None if no step is left or none may be charged.

        Args:
            waits: whether its answer is waited for, so that what it was charged will be known.

        Raises:
            BudgetExhaustedError: what is left of the budget is less than the quote.
        """
        self._waits = waits
        if not self.goes_on or self._is_at_once:
            return None
        if self._note is None:
            if not self.quote.is_payable:
                self._refuse_beyond()
                return None
            self._note = StatementNote(self.quote.nano)
        if self._n_taken < MOST_STEPS and self._steps.has_next:
            step = self._fitting()
            if step is not None:
                return step
        if not self._steps.has_others:
            return None
        at_once = self._steps.last_of_others()
        self._is_at_once = True
        return at_once if self._may(at_once) else None

    def _fitting(self) -> StatementQuestions | None:
        """The next step, without the dearest numbers if the rest of the quote does not pay all."""
        if self._may(step := self._steps.next_step()):
            return step
        places, n_out = self._steps.open_places, 1
        while places:
            # Groups apart cost as much as the dearest: few have to go.
            self._steps.leave_out(places[:n_out])
            places, n_out = places[n_out:], 2 * n_out
            if self._steps.has_next and self._may(step := self._steps.next_step()):
                return step
        return None

    def take(self, n_before: int) -> None:
        """Count the steps of earlier requests."""
        self._n_taken = n_before

    def taken(self, charged_nano: int | None) -> None:
        """Note the charge of the last step; None while it is a job."""
        self._n_taken += 1
        charged = self._price if charged_nano is None else charged_nano
        self._keep(StatementNote(max(1, self._left - charged)))

    def asked_at_once(self) -> None:
        """Note that the questions of `last` are a job, whose price was the quote.

        One that cannot be paid will fail, and leaves the statement as it was.
        """
        if self._note is None and self.quote.is_payable:
            self._keep(StatementNote(0))

    def last(self) -> StatementQuestions:
        """The questions that answer the statement, once no step is left."""
        if self.is_answered:
            return self.quoted
        if self._note is not None and self._steps.is_known and self._steps.goes_on:
            return self._steps.as_known()
        return self._steps.with_tables(self._steps.last_step())

    def rest_nano(self) -> int | None:
        """The price of what remains to be measured, where the quote did not pay it; or None."""
        if self._note is None or not self._steps.goes_on:
            return None
        at_once = workload_of(self._steps.with_tables(self._steps.last_step()))
        return self._service.price(self._name, at_once, by=self._by).nano

    def answered(self, questions: StatementQuestions) -> None:
        """Note that these questions answered the statement."""
        if not self.is_answered:
            self._keep(StatementNote.answered(questions))

    def _refuse_beyond(self) -> None:
        """BudgetExhaustedError where the budget cannot pay the quote; it says what goes on."""
        left = self._service.dataset(self._name).remaining_nano
        if self._steps.is_one or self.quote.nano <= left:
            return  # The worker refuses it as any other question.
        refused = BudgetExhaustedError(price_nano=self.quote.nano, remaining_nano=left)
        refused.args = (f"{refused} {_ADVICE}",)
        explained = self._service.explain_workload(self._name, workload_of(self._at_most))
        refused.free = explained.free
        raise refused

    def look(self) -> None:
        """Read the present history."""
        self._steps.look()

    def _may(self, questions: StatementQuestions) -> bool:
        """Whether the budget and the rest of the quote pay a step."""
        step, enough = step_of(questions), self._left if self._waits else None
        price = self._service.price(self._name, step, by=self._by, enough_nano=enough)
        self._price = price.nano
        return price.is_payable and price.nano <= self._left

    @property
    def _left(self) -> int:
        return 0 if self._note is None else self._note.left_nano

    def _keep(self, note: StatementNote) -> None:
        self._note = note
        self._service.notes.keep(self._name, self._digest, note)


def at_most_nano(statement: Statement) -> int | None:
    """The statement's own bound on its charge, in nano-epsilon; None for its price."""
    most = statement.clauses.at_most
    return None if most is None else math.floor(most * NANO)
