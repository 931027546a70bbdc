"""Statements as read, and statements answered free, by the facts that they depend on.

A statement is sent again whenever a page is drawn anew. Then nothing of it is computed again, as
long as nothing has changed that any answer on the dataset depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from qserver.query.domain import Domain
from qserver.query.requirement import Measure
from qserver.query.sql.exactness import UNSAID, Exactness
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.catalogue import catalogue_statement
from qserver.service.cache.last_used import LastUsed
from qserver.service.statement_answers import AnyStatement, StatementAnswer
from qserver.storage.standings import Stamp

MOST_KEPT: Final = 64
"""Most statements that are kept: those of a page or two of a dashboard. Not measured."""
_MOST_CELLS: Final = 2_000
"""Most numbers of one of them, so that all take some tens of megabytes. Not measured."""


@dataclass(frozen=True)
class StatementKey:
    """A statement as sent, with the state that answers it.

    Args:
        text: the statement, or the fields of a form that make it.
        is_form: whether it is these fields.
    """

    name: str
    stamp: Stamp
    text: str
    at: str
    measure: Measure | None
    default: Exactness
    explain: bool
    spends: bool
    by: str
    is_form: bool = False

    @classmethod
    def of_form(cls, name: str, stamp: Stamp, fields: str, at: str) -> StatementKey:
        """The statement of a form, asked of history alone."""
        return cls(
            name, stamp, fields, at, None, UNSAID, explain=False, spends=False, by="", is_form=True
        )

    def keeps(self, found: AnyStatement) -> bool:
        """Whether the answer cost nothing and depends on this state alone.

        An account's price depends on its allowance, which is not in the stamp.
        """
        is_of_all = is_of_nobody(found) if isinstance(found, StatementAnswer) else not self.by
        state = found.version, found.remaining_nano
        is_of_state = state == (self.stamp.n_shown, self.stamp.remaining_nano)
        return is_of_all and is_of_state and len(found.asked.questions) <= _MOST_CELLS


def is_of_nobody(found: StatementAnswer) -> bool:
    """Whether nobody was charged for the answer and no account's own loss bounds it."""
    sources = {cell.source for cells in found.cells for cell in cells}
    return not found.charged_nano and sources <= {"history", "exact"}


class ReadStatements:
    """Statements as read from texts: the text and the domain alone decide them.

    So a purchase makes no text be read again. Thread-safe.
    """

    def __init__(self) -> None:
        self._kept = LastUsed[tuple[str, int, str], tuple[Domain, Statement]](MOST_KEPT)

    def of(self, name: str, domain: Domain, text: str) -> Statement:
        """The statement in a text about a dataset: of numbers or of public names.

        Raises:
            SqlError, CapacityError: as of `parse_statement`.
        """
        # While it is kept its domain is, too, so no other domain has the same identity.
        key = name, id(domain), text
        if (found := self._kept.find(key)) is not None:
            return found[1]
        facts = catalogue_statement(text, domain, dataset=name)
        statement = facts or parse_statement(text, domain, dataset=name)
        if len(statement.rows) * len(statement.columns) <= _MOST_CELLS:
            self._kept.keep(key, (domain, statement))
        return statement
