"""A statement without lengths: its price at stated lengths, and its error.

Tools send statements on their own, so one without lengths never spends. It is priced at lengths
that depend on the text alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from qserver.errors import SqlError
from qserver.query.asking.method_and_prior import AS_EVER
from qserver.query.domain import decimal_text
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.exactness import STATED_BASE, Exactness
from qserver.query.sql.functions.function_of_sums import Combined, needs_records, public_range
from qserver.query.sql.statement import Cell, Ratio, Statement, Sum
from qserver.query.sql.tables.cell_intervals import centred
from qserver.query.sql.text import EXPLAIN

STATED_COUNT = Fraction(100)
"""Half-width of a count where its dataset has no other; of a sum so many times the largest weight
of a record."""
_WITHOUT_EXPLAIN = "say WITHIN for EXPLAIN to price: without EXPLAIN history answers it at no cost"
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
MOST_TYPED = 1_000
"""Characters of a text that is shown with the lengths in it; a longer one is no help to read."""
STATED_PART = Fraction(1, 20)
"""Half-width of a quotient, as a part of its public range, or by itself where there is none."""


class UnconfirmedError(SqlError):
    """The text gives no length, and history does not answer it.

    Args:
        price_nano, remaining_nano: price at the stated lengths, and budget left, in 1e-9 epsilon.
        words: to add to the text to pay that.
    """

    code = "unconfirmed"

    def __init__(self, refused: SqlError, *, price_nano: int, remaining_nano: int, words: str):
        self.__dict__.update(vars(refused))
        Exception.__init__(self, str(refused))
        self.price_nano, self.remaining_nano, self.words = price_nano, remaining_nano, words


def says_none(statement: Statement) -> bool:
    """Whether it lacks a length, and history may answer it.

    History may not for fresh noise, another method, or simultaneous intervals.
    """
    clauses = statement.clauses
    is_plain = not clauses.looking.independent and clauses.reading == AS_EVER
    return is_plain and not clauses.simultaneous and not statement.has_lengths


def with_default(statement: Statement, default: Exactness) -> Statement:
    """The statement with the asker's default for unset values, as if typed.

    A length that no number can exceed does not count, such as 100 for average ages.
    """
    if default.by_kind and not statement.bounds:
        statement = _with_kinds(statement, dict(default.by_kind))
    found = statement.with_default(default)
    if default.half_width is None or statement.clauses.exactness.has_length or not found.served:
        return found
    cells = [row.cells[k] for row in statement.rows for k in found.served]
    if all(2 * default.half_width >= _public_width(cell) for cell in cells):
        return statement.with_default(replace(default, half_width=None))
    return found


def _with_kinds(statement: Statement, widths: Mapping[str, Fraction]) -> Statement:
    """The statement with the length of its kind at each column without one."""
    kinds = [statement.units[k].kind if statement.units else "" for k in _missing(statement)]
    said = [statement.said_of(k) for k in range(len(statement.columns))]
    for k, kind in zip(_missing(statement), kinds, strict=True):
        if kind in widths:
            said[k] = replace(said[k], half_width=widths[kind])
    return replace(statement, exactness=tuple(said)) if said else statement


def _public_width(cell: Cell) -> float | Fraction:
    """Width of a number's public range, if WITHIN is about it."""
    if isinstance(cell, Sum):
        return math.inf
    if isinstance(cell, Ratio):
        width = centred(cell).width
        return math.inf if width is None else width
    if not cell.function.has_steps:
        return math.inf
    low, high = public_range(cell.function, len(cell.queries))
    return high - low


def by_owner(statement: Statement, count: Fraction | None) -> Statement:
    """The statement with its dataset's lengths, if these are all it lacks.

    They are for counts and sums: a quotient still needs confirmation.

    Args:
        count: the owner's half-width of a count, or None.
    """
    lacking = [row.cells[k] for row in statement.rows for k in _missing(statement)]
    if count is None or statement.has_lengths or not all(isinstance(c, Sum) for c in lacking):
        return statement
    return stated(statement, count)


def stated(statement: Statement, count: Fraction | None = None) -> Statement:
    """The statement with stated lengths for missing ones.

    Args:
        count: the half-width of a count; None for `STATED_COUNT`.
    """
    most = STATED_COUNT if count is None else count
    exactness = tuple(
        replace(statement.said_of(k), half_width=_half_width(statement, k, most))
        if k in _missing(statement)
        else statement.said_of(k)
        for k in range(len(statement.columns))
    )
    clauses = statement.clauses
    has_base = any(_has_base(cell) for row in statement.rows for cell in row.cells)
    if has_base and clauses.assuming is None:
        clauses = replace(clauses, assuming=STATED_BASE)
    return replace(statement, exactness=exactness, clauses=clauses)


def _missing(statement: Statement) -> list[int]:
    """Columns without a length."""
    columns = range(len(statement.columns))
    return [k for k in columns if not statement.exactness_of(k).has_length]


def unconfirmed(
    statement: Statement,
    full: Statement,
    *,
    price_nano: int,
    remaining_nano: int,
    is_known: bool = False,
) -> UnconfirmedError:
    """The error of a text without lengths: its price at the stated lengths, and how to confirm it.

    Args:
        full: the statement with these lengths.
        is_known: whether history gives all its numbers, so that only the price is asked.
    """
    words, text = _words(statement, full), _typed(statement, full)
    price = f"With {words} it would {costs(price_nano, remaining_nano)}."
    refused = statement.refuse(
        _WITHOUT_EXPLAIN if is_known else _condition(statement),
        f"{price} Nothing was spent. To accept, send {text or f'the statement with {words}.'}",
    )
    return UnconfirmedError(
        refused, price_nano=price_nano, remaining_nano=remaining_nano, words=words
    )


def _condition(statement: Statement) -> str:
    """The demand on the text, as a verb phrase."""
    half_width = statement.clauses.half_width
    if half_width is None:
        return "say how long the intervals may be (WITHIN): history lacks some of these numbers"
    lacking = list(dict.fromkeys(statement.units[k].text for k in _missing(statement)))
    shown = ", ".join(lacking[:4])
    if not statement.served:
        return f"say WITHIN behind each of {shown}: {_text(half_width)} cannot be for all of them"
    served = statement.units[min(statement.served)].text
    return f"say WITHIN behind {shown}, too: {_text(half_width)} is for {served}"


def costs(price_nano: int, remaining_nano: int) -> str:
    """A statement's cost and the budget left, in 1e-9 epsilon: the words after `would`."""
    if not price_nano:
        return "add nothing to the largest loss, but charge people who have lost less"
    return f"cost at most {price_nano / 1e9:.4g} of the {remaining_nano / 1e9:.4g} epsilon left"


def _words(statement: Statement, full: Statement) -> str:
    """The words for the stated lengths: once at the end, or behind each item if they differ."""
    lengths = {k: _within(full, k) for k in _missing(statement)}
    if _is_at_end(statement, lengths):
        words = next(iter(lengths.values()))
    else:
        named = [f"{statement.columns[k][:40]} {length}" for k, length in lengths.items()]
        words = ", ".join(named[:6])
    return words + _assuming(statement, full)


def _within(full: Statement, column: int) -> str:
    return f"WITHIN {_text(full.said_of(column).half_width or Fraction(0))}"


def _assuming(statement: Statement, full: Statement) -> str:
    if full.clauses.assuming == statement.clauses.assuming:
        return ""
    return f" ASSUMING AT LEAST {_text(full.clauses.assuming or STATED_BASE)}"


def _is_at_end(statement: Statement, lengths: Mapping[int, str]) -> bool:
    """Whether one WITHIN at the end gives all missing lengths."""
    is_free = statement.clauses.half_width is None and len(set(lengths.values())) == 1
    return is_free and lengths.keys() <= statement.served


def _typed(statement: Statement, full: Statement) -> str:
    """The text with the stated lengths; '' if it is long, or has no place for one.

    A number that HAVING or ORDER BY alone name becomes an item of SELECT.
    """
    text = statement.source.text
    end = len(text.rstrip(" \t\r\n;"))
    lengths = {k: _within(full, k) for k in _missing(statement)}
    added = dict[int, str]()
    if _is_at_end(statement, lengths):
        added[end] = f" {next(iter(lengths.values()))}"
    else:
        last = max((stop for stop in statement.stops if stop is not None), default=None)
        for k, length in lengths.items():
            stop, name = statement.stops[k], statement.columns[k]
            at = last if stop is None else stop
            has_place = stop is not None or (len(_SELECT.findall(text)) == 1 and "..." not in name)
            if at is None or not has_place:
                return ""
            added[at] = added.get(at, "") + (f", {name} {length}" if stop is None else f" {length}")
    added[end] = added.get(end, "") + _assuming(statement, full)
    text = text[:end]
    for at, words in sorted(added.items(), reverse=True):
        text = text[:at] + words + text[at:]
    text = EXPLAIN.sub("", text).strip()
    return "" if "--" in text or len(text) > MOST_TYPED else text


def _text(number: Fraction) -> str:
    return decimal_text(Fraction(f"{float(number):.3g}"))


def _half_width(statement: Statement, column: int, count: Fraction) -> Fraction:
    """A length from text and dataset alone, to three digits."""
    cells = [row.cells[column] for row in statement.rows]
    found = [_of_cell(cell, count) for cell in cells]
    return Fraction(f"{float(max(found, default=count)):.3g}")


def _has_base(cell: Cell) -> bool:
    """Whether its exactness depends on the number of records."""
    return isinstance(cell, Ratio) or (isinstance(cell, Combined) and needs_records(cell.function))


def _of_cell(cell: Cell, count: Fraction) -> Fraction:
    if isinstance(cell, Combined):
        smooth = cell.function.smooth
        if smooth is None or not smooth.is_steady:
            return cell.function.stated_half_width
        return count * max(map(_largest_weight, cell.queries)) or count
    if isinstance(cell, Sum):
        return count * (_largest_weight(cell.query) or 1)
    width = centred(cell).width
    return STATED_PART * width if width else STATED_PART


def _largest_weight(query: LinearQuery) -> Fraction:
    """Bound on the weight of one record: the largest of all terms."""
    found = Fraction(0)
    for term in query.terms:
        most = abs(Fraction(term.coefficient))
        for factor in term.factors:
            most *= max(abs(value) for value in factor.weights.values)
        found = max(found, most)
    return found
