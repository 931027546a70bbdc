"""A statement that does not say how exact it shall be: what it is priced at, and the error.

Tools send statements by themselves, so one that says nothing never spends. It is priced at lengths
that depend on the text alone.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from qserver.errors import SqlError
from qserver.query.asking.reading import AS_EVER
from qserver.query.domain import decimal_text
from qserver.query.linear import LinearQuery
from qserver.query.sql.cells import centred
from qserver.query.sql.statement import Ratio, Statement, Sum

STATED_COUNT = Fraction(100)
"""Half-width of a count; of a sum so many times the largest weight of a record."""
STATED_PART = Fraction(1, 20)
"""Half-width of a quotient, as a part of its public range, or by itself where there is none."""
STATED_BASE = Fraction(1000)
"""The least number of records in a denominator."""


class UnconfirmedError(SqlError):
    """The text does not say how exact it shall be, and history does not answer it.

    Args:
        price_nano, remaining_nano: at the stated lengths, and what is left, in 1e-9 epsilon.
        words: what to add to the text to pay that.
    """

    code = "unconfirmed"

    def __init__(self, refused: SqlError, *, price_nano: int, remaining_nano: int, words: str):
        self.__dict__.update(vars(refused))
        Exception.__init__(self, str(refused))
        self.price_nano, self.remaining_nano, self.words = price_nano, remaining_nano, words


def is_free_to_ask(statement: Statement) -> bool:
    """Whether history may answer it: it does not ask for fresh noise, or another reading."""
    clauses = statement.clauses
    return (
        not clauses.looking.independent and clauses.reading == AS_EVER and not clauses.simultaneous
    )


def stated(statement: Statement) -> Statement:
    """The statement with the stated lengths where it says none."""
    exactness = tuple(
        own if own.has_length else replace(own, half_width=_half_width(statement, k))
        for k in range(len(statement.columns))
        if (own := statement.exactness_of(k)) is not None
    )
    clauses = statement.clauses
    has_ratio = any(isinstance(cell, Ratio) for row in statement.rows for cell in row.cells)
    if has_ratio and clauses.assuming is None:
        clauses = replace(clauses, assuming=STATED_BASE)
    return replace(statement, exactness=exactness, clauses=clauses)


def unconfirmed(
    statement: Statement, full: Statement, *, price_nano: int, remaining_nano: int
) -> UnconfirmedError:
    """The error that a text gets: with the price at the stated lengths, and how to confirm it.

    Args:
        full: the statement with these lengths.
    """
    words = _words(statement, full)
    refused = statement.source.refuse(
        "say how long the intervals may be, since history does not give all of these numbers",
        statement.source.end,
        hint=f"With {words} it costs {price_nano / 1e9:.4g} epsilon at most, of "
        f"{remaining_nano / 1e9:.4g}. Nothing was spent: send it so to pay that.",
    )
    return UnconfirmedError(
        refused, price_nano=price_nano, remaining_nano=remaining_nano, words=words
    )


def _words(statement: Statement, full: Statement) -> str:
    """What says the stated lengths: once at the end, or behind each item where they differ."""
    missing = [
        (name, full.exactness[k].half_width or Fraction(0))
        for k, name in enumerate(statement.columns)
        if not statement.exactness_of(k).has_length
    ]
    lengths = {length for _, length in missing}
    if len(lengths) == 1:
        words = f"WITHIN {_text(lengths.pop())}"
    else:
        words = ", ".join(f"{name[:40]} WITHIN {_text(length)}" for name, length in missing[:6])
    if full.clauses.assuming != statement.clauses.assuming:
        words += f" ASSUMING AT LEAST {_text(full.clauses.assuming or STATED_BASE)}"
    return words


def _text(number: Fraction) -> str:
    return decimal_text(Fraction(f"{float(number):.3g}"))


def _half_width(statement: Statement, column: int) -> Fraction:
    """A length that the text alone decides, to three digits."""
    cells = [row.cells[column] for row in statement.rows]
    found = [_of_cell(cell) for cell in cells]
    return Fraction(f"{float(max(found, default=STATED_COUNT)):.3g}")


def _of_cell(cell: Sum | Ratio) -> Fraction:
    if isinstance(cell, Sum):
        return STATED_COUNT * (_largest_weight(cell.query) or 1)
    shape = centred(cell)
    return STATED_PART * 2 * shape.radius if shape.is_bounded and shape.radius else STATED_PART


def _largest_weight(query: LinearQuery) -> Fraction:
    """A bound on the weight of one record, which the largest of all terms is."""
    found = Fraction(0)
    for term in query.terms:
        most = abs(Fraction(term.coefficient))
        for factor in term.factors:
            most *= max(abs(value) for value in factor.weights.values)
        found = max(found, most)
    return found / query.denominator
