"""A statement that may not spend: answered from history alone, or else its price as an error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qserver.query.sql.cells import has_steps
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import UnconfirmedError, costs, stated, unconfirmed
from qserver.service.cells.answered import workload_of
from qserver.service.cells.of_questions import only_question
from qserver.service.statement_answers import StatementAnswer

if TYPE_CHECKING:
    from qserver.service.service import Service
    from qserver.service.statements import Statements


def from_history(
    statements: Statements,
    service: Service,
    name: str,
    statement: Statement,
    *,
    is_priced: bool,
    by: str,
) -> StatementAnswer:
    """The table that history gives at no cost.

    Args:
        is_priced: whether the price is asked for, and no table.

    Raises:
        UnconfirmedError: history does not give every number; with the price at stated lengths.
    """
    full = stated(statement, service.within(name))
    if is_priced:
        raise _priced(statements, name, statement, full, by=by)
    questions = statements.asked(name, full)
    known = service.insight.known_numbers(name, workload_of(questions))
    if all(one is not None for one in known):
        status = service.dataset(name)
        return statements.known_table(
            name,
            questions,
            known,
            remaining_nano=status.remaining_nano,
            version=status.version,
            is_asked=False,
        )
    raise _priced(statements, name, statement, full, by=by)


def _priced(
    statements: Statements, name: str, statement: Statement, full: Statement, *, by: str
) -> UnconfirmedError:
    """The error with the price at the stated lengths of `full`."""
    found = statements.explain(name, full, by=by)
    return unconfirmed(
        statement, full, price_nano=found.price_nano, remaining_nano=found.remaining_nano
    )


def _is_free(statements: Statements, service: Service, name: str, statement: Statement) -> bool:
    """Whether history gives all that is asked, which is found sooner than a price."""
    questions = statements.asked(name, statement)
    if (only := only_question(questions)) is None:
        return service.insight.is_free(name, workload_of(questions))
    return service.insight.is_free(
        name, replace(only, looking=statement.clauses.looking, reading=statement.clauses.reading)
    )


def refuse_unless_free(
    statements: Statements, service: Service, name: str, statement: Statement, *, by: str
) -> None:
    """Return if a statement with lengths costs nothing now; UnconfirmedError with its price."""
    if not has_steps(statement) and _is_free(statements, service, name, statement):
        return
    found = statements.explain(name, statement, by=by)
    if found.kind in ("free", "exact"):
        return
    price, left = found.price_nano, found.remaining_nano
    refused = statement.source.refuse(
        "cost nothing, since it was sent so that it does not spend",
        statement.source.end,
        hint=f"It {costs(price, left)}. Nothing was spent: allow it to spend to pay that.",
    )
    raise UnconfirmedError(refused, price_nano=price, remaining_nano=left, words="")
