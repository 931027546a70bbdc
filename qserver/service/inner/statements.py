"""A statement with a SELECT of groups behind IN, asked and explained.

The rest is asked about the groups that the released numbers give. Where others are possible, it is
asked about them, too, as far as history does not know that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.errors import BudgetExhaustedError, InputError
from qserver.query.sql.order_by import PLAIN
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import UnconfirmedError, stated
from qserver.records.answer import JobStatus
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.inner.choices import Told, around, is_told_beside
from qserver.service.inner.parts import Choice, Parts
from qserver.service.statement_answers import (
    AnyStatement,
    StatementAnswer,
    StatementExplanation,
)
from qserver.service.without_spending import WithoutSpending

_ONE_CHOICE = (
    "The price is for the groups that the inner SELECT gives; where some of them are in doubt, the "
    "rest is asked about several choices, for up to the most that may be charged."
)
MOST_ASKED = 4
"""About the so many nearest choices the rest is asked; about others history must know it."""
_NANO = 10**9


@dataclass(frozen=True)
class InnerSelects:
    """One such statement, to be answered until `deadline`; `answered` asks a part of it."""

    parts: Parts
    answered: Callable[
        [StatementKey, Statement, float, Idempotency | None], AnyStatement | JobStatus
    ]
    deadline: float
    idempotency: Idempotency | None

    def run(self) -> AnyStatement | JobStatus:
        """The table, its price, or the job of a part, as `Statements.run` gives it."""
        parts = self.parts
        widest, inner, source = parts.widest, parts.inner, parts.statement.source
        if widest.has_lengths and not all(one.has_lengths for one in inner):
            raise source.refuse(
                "say how exactly the counts of the inner SELECT are told",
                source.end,
                hint="Nearest: WITHIN 100 at the end.",
            )
        if parts.asked.explain or widest.explains:
            if not widest.has_lengths:
                raise parts.unconfirmed()
            return self._explained(inner)
        # Without a length, history answers all of it or nothing is spent.
        may_spend = parts.asked.spends and widest.has_lengths
        sent = replace(parts, asked=replace(parts.asked, spends=may_spend))
        try:
            return replace(self, parts=sent)._answered()
        except UnconfirmedError as exc:
            raise parts.unconfirmed() from exc

    def _answered(self) -> StatementAnswer | JobStatus:
        if isinstance(told := self._told(), JobStatus):
            return told
        outer = self.parts.outer(told.chosen)
        if told.possible is None:
            return self._joined(told, self._unknown(outer), [None])
        most = self._most_each(told, outer)
        first = self._table(_at_most(outer, most), "")
        if isinstance(first, JobStatus):
            return first
        others = list[StatementAnswer | None]()
        for i, one in enumerate(told.others):
            found, step = self._known(one), f"choice {i + 1}"
            if isinstance(found, JobStatus):
                return found
            # The answer under the earlier key has its charge.
            is_told = found is not None and is_told_beside(first, found)
            # The same choices when the statement is sent again, so that it is free then.
            if (not is_told or self._was_asked(step)) and i < MOST_ASKED - 1:
                asked = self._other(one, most, step)
                if isinstance(asked, JobStatus):
                    return asked
                found = asked or found
            others.append(found)
        return self._joined(told, first, others)

    def _joined(
        self, told: Told, first: StatementAnswer, others: Sequence[StatementAnswer | None]
    ) -> StatementAnswer:
        """The table by the released choice, which allows for the others, and what all cost."""
        tables = [first, *(one for one in others if one is not None)]
        return replace(
            around(first, others),
            asked=self.parts.as_said(first.asked, told.remarks),
            charged_nano=told.charged_nano + sum(one.charged_nano for one in tables),
            remaining_nano=tables[-1].remaining_nano,
            version=tables[-1].version,
        )

    def _most_each(self, told: Told, outer: Statement) -> int:
        """The most that the rest may cost for each choice, in nano-epsilon: as quoted."""
        samples = self._nano(self.parts.dearest())
        # Where the choice costs nothing, the price of the rest is known.
        known = 0 if told.charged_nano or not outer.rows else self._nano(outer)
        return max(samples, known, 1)

    def _told(self) -> Told | JobStatus:
        """The choices of the inner SELECTs."""
        inner = self.parts.inner
        self._check_budget(inner)
        tables = list[StatementAnswer]()
        for i, one in enumerate(inner):
            found = self._table(one, f"inner {i + 1}")
            if isinstance(found, JobStatus):
                return found
            tables.append(found)
        told = Told.by(self.parts.statement.inner, tables)
        return told if self._can_be_told(told) else replace(told, possible=None)

    def _can_be_told(self, told: Told) -> bool:
        """Whether history knows the rest for the choices that are not asked."""
        return all(self._known(one) is not None for one in told.others[MOST_ASKED - 1 :])

    def _check_budget(self, inner: Sequence[Statement]) -> None:
        """BudgetExhaustedError where the budget left does not pay the rest as well."""
        parts = self.parts
        price = sum(parts.price(one).nano for one in inner) if parts.asked.spends else 0
        left = parts.service.dataset(parts.asked.name).remaining_nano
        if price and (price := price + parts.price(parts.dearest()).nano) > left:
            raise BudgetExhaustedError(price_nano=price, remaining_nano=left)

    def _table(self, statement: Statement, step: str) -> StatementAnswer | JobStatus:
        """The table of a part.

        Args:
            step: what tells its idempotency key apart. No key of a client holds a line end.
        """
        wait_s, key = self.parts.statements.left_s(self.deadline), self._key(step)
        found = self.answered(self.parts.asked, statement, wait_s, key)
        assert not isinstance(found, StatementExplanation)  # noqa: S101 - it does not explain
        return found

    def _key(self, step: str) -> Idempotency | None:
        key = self.idempotency
        return replace(key, key=f"{key.key}\n{step}") if key is not None and step else key

    def _was_asked(self, step: str) -> bool:
        key, name = self._key(step), self.parts.asked.name
        return key is not None and not self.parts.service.is_new(name, key)

    def _other(
        self, choice: Choice, most_nano: int, step: str
    ) -> StatementAnswer | JobStatus | None:
        """The rest for another choice; None where it may not be paid or cannot be asked."""
        parts, outer = self.parts, self._whole(choice)
        if outer is None or not parts.asked.spends or not parts.price(outer).is_payable:
            return None
        return self._table(_at_most(outer, most_nano), step)

    def _whole(self, choice: Choice) -> Statement | None:
        """The rest for another choice, with all rows; None where it cannot be asked."""
        try:
            outer = replace(self.parts.outer(choice), shape=PLAIN)
            if outer.rows:
                self.parts.statements.asked(self.parts.asked.name, self._stated(outer))
        except InputError:
            return None
        return outer

    def _stated(self, statement: Statement) -> Statement:
        return stated(statement, self.parts.service.within(self.parts.asked.name))

    def _known(self, choice: Choice) -> StatementAnswer | JobStatus | None:
        """The rest for another choice by history, however exactly; None if history knows
        nothing."""
        parts, outer = self.parts, self._whole(choice)
        if outer is None:
            return None
        if not outer.rows:
            return self._unknown(outer)
        asked = parts.asked
        free = WithoutSpending(parts.statements, parts.service, asked.name, asked.by)
        questions = parts.statements.asked(asked.name, self._stated(outer))
        return free.known(questions, wait_s=parts.statements.left_s(self.deadline))

    def _unknown(self, statement: Statement) -> StatementAnswer:
        """The table with nothing known."""
        parts, name = self.parts, self.parts.asked.name
        questions, status = (
            parts.statements.asked(name, self._stated(statement)),
            (parts.service.dataset(name)),
        )
        return parts.statements.known_table(
            name,
            questions,
            [None] * len(questions.questions),
            remaining_nano=status.remaining_nano,
            version=status.version,
            is_asked=False,
        )

    def _explained(self, inner: Sequence[Statement]) -> StatementExplanation:
        """The price of the inner numbers and of the rest; the most where groups are in doubt."""
        parts, name, by = self.parts, self.parts.asked.name, self.parts.asked.by
        before = [parts.statements.explain(name, one, by=by) for one in inner]
        told = self._told_already(before)
        rest = [parts.statements.explain(name, one, by=by) for one in self._priced(told)]
        if rest:
            first, said = rest[0], [_ONE_CHOICE] if len(rest) > 1 else []
        else:
            first = _free(parts.statements.explain(name, parts.dearest(), by=by))
            said = told.remarks if told else []
        price = sum(one.price_nano for one in (*before, first))
        return replace(
            first,
            asked=parts.as_said(first.asked, said),
            kind=before[0].kind if any(one.price_nano for one in before) else first.kind,
            price_nano=price,
            most_nano=sum(one.most_nano for one in (*before, *rest)),
            price_apart_nano=None,
            measure=replace(
                first.measure,
                only_this_nano=sum(one.measure.only_this_nano for one in (*before, first)),
                auto_nano=sum(one.measure.auto_nano for one in (*before, first)),
            ),
            affordable=price <= first.remaining_nano,
            curve=(),
        )

    def _nano(self, statement: Statement) -> int:
        return self.parts.price(statement).nano

    def _told_already(self, before: Sequence[StatementExplanation]) -> Told | None:
        """The choices of the inner SELECTs by history; None where it does not suffice."""
        parts = self.parts
        if not all(one.kind in ("free", "exact") for one in before):
            return None
        sent = replace(parts, asked=replace(parts.asked, explain=False))
        told = replace(self, parts=sent)._told()
        return told if isinstance(told, Told) else None

    def _priced(self, told: Told | None) -> list[Statement]:
        """The rest for the choice, and for the others that would be asked."""
        parts = self.parts
        if told is None:
            return [parts.dearest()] * MOST_ASKED
        if told.possible is None:
            return []
        first, nearest = self._known(told.chosen), told.others[: MOST_ASKED - 1]
        asked = [one for one in nearest if not self._is_known_beside(first, one)]
        found = [parts.outer(told.chosen), *map(self._whole, asked)]
        return [one for one in found if one is not None and one.rows]

    def _is_known_beside(self, first: StatementAnswer | JobStatus | None, choice: Choice) -> bool:
        """Whether history knows the numbers of another choice about as exactly as the first's."""
        found = self._known(choice)
        if isinstance(first, StatementAnswer) and isinstance(found, StatementAnswer):
            return is_told_beside(first, found)
        return False


def _at_most(statement: Statement, nano: int) -> Statement:
    return replace(statement, clauses=replace(statement.clauses, at_most=Fraction(nano, _NANO)))


def _free(found: StatementExplanation) -> StatementExplanation:
    """The explanation where the rest costs nothing."""
    measure = replace(found.measure, only_this_nano=0, auto_nano=0, buys="")
    return replace(found, kind="free", price_nano=0, most_nano=0, is_most=False, measure=measure)
