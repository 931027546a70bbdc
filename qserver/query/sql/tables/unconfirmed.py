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
from qserver.query.sql.combined.function import Combined
from qserver.query.sql.statement import Cell, Ratio, Statement, Sum
from qserver.query.sql.tables.bounds import centred
from qserver.query.sql.tables.exactness import STATED_BASE, UNSAID, Exactness
from qserver.text import ADDS_NOTHING

STATED_COUNT = Fraction(100)
"""Half-width of a count where its dataset has no other; of a sum so many times the largest weight
of a record."""
STATED_PART = Fraction(1, 20)
"""Half-width of a quotient, as a part of its public range, or by itself where there is none."""


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


def says_none(statement: Statement) -> bool:
    """Whether it lacks a length, and history may answer it.

    History does not where it asks for fresh noise, another reading, or all intervals at once.
    """
    clauses = statement.clauses
    is_plain = not clauses.looking.independent and clauses.reading == AS_EVER
    return is_plain and not clauses.simultaneous and not statement.has_lengths


def with_default(statement: Statement, default: Exactness) -> Statement:
    """The statement with a default of the asker's where it says nothing.

    The length is one of counts and sums. Other numbers have other units: no average, share or
    median gets a longer interval by it than the stated one.
    """
    others = [k for k in range(len(statement.columns)) if _is_other(statement, k)]
    if default.half_width is None or statement.bounds or not others:
        return statement.with_default(default)
    most = default.half_width
    said = statement.exactness or (UNSAID,) * len(statement.columns)
    exactness = tuple(
        replace(own, half_width=min(most, _half_width(statement, k, most))) if k in others else own
        for k, own in enumerate(said)
    )
    return replace(statement, exactness=exactness).with_default(default)


def _is_other(statement: Statement, column: int) -> bool:
    """Whether a column lacks a length, and is of other numbers than counts and sums."""
    cells = (row.cells[column] for row in statement.rows)
    return not statement.exactness_of(column).has_length and any(
        not isinstance(cell, Sum) for cell in cells
    )


def by_owner(statement: Statement, count: Fraction | None) -> Statement:
    """The statement with the lengths of its dataset where it says none, if these are all it lacks.

    They are for counts and sums: a quotient still has to be confirmed.

    Args:
        count: the half-width of a count, as the dataset's owner said; None for no length.
    """
    if count is None or statement.has_lengths or not _has_sums_alone(statement):
        return statement
    return stated(statement, count)


def stated(statement: Statement, count: Fraction | None = None) -> Statement:
    """The statement with the stated lengths where it says none.

    Args:
        count: the half-width of a count; None for `STATED_COUNT`.
    """
    most = STATED_COUNT if count is None else count
    exactness = tuple(
        own if own.has_length else replace(own, half_width=_half_width(statement, k, most))
        for k in range(len(statement.columns))
        if (own := statement.exactness_of(k)) is not None
    )
    clauses = statement.clauses
    has_base = any(_has_base(cell) for row in statement.rows for cell in row.cells)
    if has_base and clauses.assuming is None:
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
        hint=f"With {words} it {costs(price_nano, remaining_nano)}. Nothing was spent: send it so "
        "to pay that.",
    )
    return UnconfirmedError(
        refused, price_nano=price_nano, remaining_nano=remaining_nano, words=words
    )


def costs(price_nano: int, remaining_nano: int) -> str:
    """What a statement costs, of what is left, in 1e-9 epsilon: a verb and what follows it."""
    if not price_nano:
        return f"{ADDS_NOTHING}, but charges people who have lost less"
    return f"costs {price_nano / 1e9:.4g} epsilon at most, of {remaining_nano / 1e9:.4g}"


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


def _has_sums_alone(statement: Statement) -> bool:
    """Whether every column that says no length has counts and sums alone."""
    missing = [k for k in range(len(statement.columns)) if not statement.exactness_of(k).has_length]
    return all(isinstance(row.cells[k], Sum) for row in statement.rows for k in missing)


def _half_width(statement: Statement, column: int, count: Fraction) -> Fraction:
    """A length that the text and the dataset alone decide, to three digits."""
    cells = [row.cells[column] for row in statement.rows]
    found = [_of_cell(cell, count) for cell in cells]
    return Fraction(f"{float(max(found, default=count)):.3g}")


def _has_base(cell: Cell) -> bool:
    """Whether how exactly it is measured depends on the number of records."""
    return isinstance(cell, Ratio) or (isinstance(cell, Combined) and cell.function.has_base)


def _of_cell(cell: Cell, count: Fraction) -> Fraction:
    if isinstance(cell, Combined):
        return cell.function.stated_half_width
    if isinstance(cell, Sum):
        return count * (_largest_weight(cell.query) or 1)
    width = centred(cell).width
    return STATED_PART * width if width else STATED_PART


def _largest_weight(query: LinearQuery) -> Fraction:
    """A bound on the weight of one record, which the largest of all terms is."""
    found = Fraction(0)
    for term in query.terms:
        most = abs(Fraction(term.coefficient))
        for factor in term.factors:
            most *= max(abs(value) for value in factor.weights.values)
        found = max(found, most)
    return found / query.denominator
