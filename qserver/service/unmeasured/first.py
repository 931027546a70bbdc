"""A statement without WITHIN: answered from history alone, or else its price as an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import stated, unconfirmed
from qserver.service.statement_answers import StatementAnswer

if TYPE_CHECKING:
    from qserver.service.service import Service
    from qserver.service.statements import Statements


def from_history(
    statements: Statements, service: Service, name: str, statement: Statement, *, by: str
) -> StatementAnswer:
    """The table that history gives at no cost.

    Raises:
        UnconfirmedError: history does not give every number; with the price at stated lengths.
    """
    full = stated(statement)
    questions = statements.asked(name, full)
    known = service.insight.known_numbers(name, statements.workload(questions))
    if all(one is not None for one in known):
        status = service.dataset(name)
        return statements.known_table(
            name,
            questions,
            known,
            remaining_nano=status.remaining_nano,
            version=status.version,
        )
    raise priced(statements, name, statement, by=by)


def priced(statements: Statements, name: str, statement: Statement, *, by: str) -> Exception:
    """The error with the price at stated lengths."""
    full = stated(statement)
    found = statements.explain(name, full, by=by)
    return unconfirmed(
        statement, full, price_nano=found.price_nano, remaining_nano=found.remaining_nano
    )
