"""Cut a text of SQL into tokens: a bounded number, and only those that a question needs.

Everything else in SQL is refused here, with the reason, before parsing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from sqlglot import Dialect, Token, TokenError, TokenType
from sqlglot import Tokenizer as StandardTokenizer

from qserver.errors import CapacityError, SqlError
from qserver.query.calendar import unit_of
from qserver.query.sql.text import EXPLAIN, SqlText, TextPlace, bounded, check_beginning, explains
from qserver.query.sql.words import LAST_PERIODS, NO_CLOCK, call_of

# It would log what it cannot read, with the text; refusals say it.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

MAX_TOKENS = 1 << 14
MAX_NESTING = 32

_CLAUSES = frozenset(
    {"WITHIN", "CONFIDENCE", "SIMULTANEOUS", "CONSISTENT", "ASSUMING", "ONLY", "INDEPENDENT"}
)
_OF_ITEMS = frozenset({"WITHIN", "CONFIDENCE"})
_OF_LENGTHS = frozenset({"PERCENT", "%", "OF"})
# Further words that mean something where a name may stand.
_NAME = re.compile(r'[\w"`)]')
_NOT_NAMES = frozenset(
    {"ANY", "AS", "AT", "BY", "GIVEN", "GROUP", "LARGEST", "LAST", "LEAST", "ORDER"}
)
CHOICES = ("LARGEST", "LEAST", "ANY")
READINGS = {"GIVEN": ("NON", "KNOWN", "BETWEEN"), "BY": ("CONVOLUTION", "MONTE", "ERROR")}
"""What follows the words that say how a posterior is read."""
_FOLLOWED = {**READINGS, "ONLY": ("THIS",), "AT": ("MOST",)}


def _kinds(names: str) -> frozenset[TokenType]:
    return frozenset(TokenType[name] for name in names.split())


_ALLOWED = _kinds(
    """SELECT FROM WHERE GROUP_BY ALIAS FILTER CASE WHEN THEN ELSE END AND OR NOT IN IS BETWEEN
    EQ NEQ LT LTE GT GTE PLUS DASH STAR SLASH COMMA DOT L_PAREN R_PAREN IDENTIFIER VAR NUMBER STRING
    TRUE FALSE NULL LIKE ILIKE HAVING ORDER_BY ASC DESC LIMIT OFFSET FETCH WITH UNION ALL OVER
    PARTITION_BY ROLLUP CUBE GROUPING_SETS DCOLON DPIPE MOD FOR INTERVAL CARET QUALIFY ISNULL
    NOTNULL DIV RLIKE IRLIKE SIMILAR_TO ESCAPE JOIN ON USING INNER LEFT RIGHT FULL OUTER CROSS
    NATURAL ANY ARRAY L_BRACKET R_BRACKET"""
)
# Words of FETCH FIRST 5 ROWS ONLY, of windows, and the types of CAST; each may also be a name.
_ALSO_NAMES = _kinds(
    """FIRST NEXT ROW ROWS PERCENT RANGE INT BIGINT SMALLINT FLOAT DOUBLE DECIMAL TEXT VARCHAR CHAR
    DATE TIME TIMESTAMP TIMESTAMPTZ"""
)
_REASONS = {
    TokenType.DISTINCT: (
        "not use DISTINCT, which is not linear in the counts of records",
        "Nearest: COUNT(*) with GROUP BY, which counts each value.",
    ),
    TokenType.EXISTS: (
        "leave out EXISTS: no released number says whether a record exists",
        "Ask COUNT(*) of the inner SELECT first; what holds of the record itself stands in WHERE.",
    ),
    TokenType.XOR: ("join conditions by AND, OR and NOT", "Nearest: (a OR b) AND NOT (a AND b)."),
    TokenType.TABLE_SAMPLE: (
        "leave out the sample, which makes no count cheaper",
        "A longer interval costs less: WITHIN.",
    ),
    TokenType.RECURSIVE: ("not use RECURSIVE", "Nearest: WITH name AS (SELECT ...)."),
    **dict.fromkeys(
        _kinds("CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME CURRENT_DATETIME"),
        (NO_CLOCK, LAST_PERIODS),
    ),
}
# What may stand before SELECT, where it does not begin the text.
_BEFORE_SELECT = _kinds("L_PAREN R_PAREN UNION ALL DISTINCT")


class Words(Dialect):
    """SQL with names in double quotes or backquotes, where missing numbers come last."""

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(StandardTokenizer):
        """Standard tokens."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **StandardTokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "~": TokenType.RLIKE,
        }


def written_name(name: str) -> str:
    """The written name of an attribute or dataset: quoted unless a plain word."""
    is_word = [t.token_type for t in Words().tokenize(name)] == [TokenType.VAR]
    is_plain = is_word and name.upper() not in _CLAUSES | _NOT_NAMES
    return name if is_plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class TokenizedSql:
    """A text, split into the part that sqlglot parses and the clauses beyond SQL.

    Args:
        explains: whether it began with EXPLAIN.
        body: SELECT and what follows, up to the clauses.
        clauses: from the first of the words that begin a clause on.
        behind_items: the same words behind items of SELECT, by the place where the item begins.
    """

    source: SqlText
    explains: bool
    body: tuple[Token, ...]
    clauses: tuple[Token, ...]
    behind_items: Mapping[int, tuple[Token, ...]] = field(default_factory=dict)


def tokenize(text: str, *, names: Collection[str] = (), field: str = "sql") -> TokenizedSql:
    """The tokens of a text.

    Args:
        names: attributes and the dataset. They need no quotes, even if they are words of SQL or
            have `-` and `.` inside.
        field: the name of the field that holds the text, for messages.

    Raises:
        SqlError: it has a part that no question may have, or an unclosed quoted text.
        CapacityError: it is too long, or nested too deep.
    """
    source = bounded(text, field)
    check_beginning(source)
    tokens = _named(_scan(source), source, set(names))
    if tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MAX_TOKENS:
        raise CapacityError(f"A text of SQL has at most {MAX_TOKENS:,} words and signs.")
    tokens, behind = _without_items_clauses(tokens)
    cut = _start_of_clauses(tokens)
    _check(source, tokens[:cut])
    return TokenizedSql(source, explains(text), tuple(tokens[:cut]), tuple(tokens[cut:]), behind)


def _scan(source: SqlText) -> list[Token]:
    """The tokens of a text, without EXPLAIN."""
    found = EXPLAIN.match(source.text)
    # Blanked out, since places count from the start of the whole text.
    skipped = 0 if found is None else found.end()
    text = " " * skipped + source.text[skipped:]
    try:
        return _with_fractions(Words().tokenize(text), text)
    except TokenError as exc:
        # Nearly always, a quote or a comment does not end.
        quote = max(text.rfind("'"), text.rfind('"'), text.rfind("`"), text.rfind("/*"), 0)
        place = TextPlace(quote, quote + 1)
        raise source.refuse("end each quoted text and comment that it opens", place) from exc


def _with_fractions(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens, with `.5` as one number unless part of a name."""
    found = list[Token]()
    for token in tokens:
        dot = found[-1] if found else token
        is_number = dot.text == "." and token.token_type is TokenType.NUMBER
        if is_number and dot.end + 1 == token.start and not _NAME.match(text, dot.start - 1):
            number = f".{token.text}"
            kind, line, col = TokenType.NUMBER, dot.line, token.col
            found[-1] = Token(kind, number, line, col, dot.start, token.end)
        else:
            found.append(token)
    return found


def _named(tokens: list[Token], source: SqlText, names: set[str]) -> list[Token]:
    """The tokens, with those that spell one of `names` joined into one; LAST is a call."""
    folded = {name.lower() for name in names}
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        if _is_date(tokens, i):
            i += 1  # DATE '2024-03-01' is the text of that date
        n = _n_joined(tokens, i, source.text, folded)
        call = [] if n > 1 else call_of(tokens[i : i + 3])
        if n and not call:
            first, last = tokens[i], tokens[i + n - 1]
            name = source.text[first.start : last.end + 1]
            found.append(Token(TokenType.VAR, name, first.line, last.col, first.start, last.end))
        else:
            found += call or [tokens[i]]
        i += 3 if call else max(1, n)
    return found


def _is_date(tokens: Sequence[Token], i: int) -> bool:
    """Whether the word DATE stands before the text of a day."""
    is_date = tokens[i].text.upper() == "DATE" and i + 1 < len(tokens)
    text = tokens[i + 1] if is_date else tokens[i]
    return is_date and text.token_type is TokenType.STRING and unit_of(text.text) == "day"


def _n_joined(tokens: Sequence[Token], i: int, text: str, folded: Collection[str]) -> int:
    """Number of tokens from `i`, without spaces, that spell a name; 0 for none."""
    quoted = (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NATIONAL_STRING)
    best, stop = 0, i
    while stop < len(tokens) and tokens[stop].token_type not in quoted and stop - i < MAX_NESTING:
        if stop > i and tokens[stop].start != tokens[stop - 1].end + 1:
            break
        # A single word of SQL's grammar stays one: an attribute `end` must not hide it.
        is_word = stop == i and tokens[i].token_type in _ALLOWED
        if not is_word and text[tokens[i].start : tokens[stop].end + 1].lower() in folded:
            best = stop - i + 1
        stop += 1
    return best


def _without_items_clauses(tokens: list[Token]) -> tuple[list[Token], dict[int, tuple[Token, ...]]]:
    """The tokens without WITHIN and CONFIDENCE behind items of SELECT, and these."""
    kept, found = list[Token](), dict[int, tuple[Token, ...]]()
    # Per parenthesis that is open where its present item begins; None outside of SELECT.
    begins: list[int | None] = [None]
    i = 0
    while i < len(tokens):
        kind, first = tokens[i].token_type, begins[-1]
        is_cut = tokens[i].text.upper() in _OF_ITEMS and _is_clause(tokens, i)
        if first is not None and i > first and kind is TokenType.VAR and is_cut:
            stop = _end_of_clause(tokens, i)
            place = tokens[first].start
            found[place] = (*found.get(place, ()), *tokens[i:stop])
            i = stop
            continue
        kept.append(tokens[i])
        if kind is TokenType.L_PAREN:
            begins.append(None)
        elif kind is TokenType.R_PAREN and len(begins) > 1:
            begins.pop()
        elif kind is TokenType.SELECT or (kind is TokenType.COMMA and first is not None):
            begins[-1] = i + 1
        elif kind in (TokenType.FROM, TokenType.UNION):
            begins[-1] = None
        i += 1
    return kept, found


def _end_of_clause(tokens: Sequence[Token], start: int) -> int:
    """The end of WITHIN or CONFIDENCE: after its numbers and PERCENT OF."""
    i = start + 1
    while i < len(tokens) and (
        tokens[i].token_type is TokenType.NUMBER or tokens[i].text.upper() in _OF_LENGTHS
    ):
        i += 1
    return i


def _start_of_clauses(tokens: Sequence[Token]) -> int:
    """Index of the first clause word at the end of the statement: outside of parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        may_begin = token.token_type in (TokenType.VAR, TokenType.ALIAS)
        if not depth and i and may_begin and _is_clause(tokens, i):
            return i
    return len(tokens)


def _is_clause(tokens: Sequence[Token], i: int) -> bool:
    """Whether a clause begins; an attribute with the same name has no number after it."""
    word = tokens[i].text.upper()
    if word in _FOLLOWED:
        return i + 1 < len(tokens) and tokens[i + 1].text.upper() in _FOLLOWED[word]
    if word == "AS":
        # A column may be called `largest`; then neither a number nor OF comes next.
        after = [token.text.upper() for token in tokens[i + 1 : i + 3]]
        if after[:1] == ["OF"]:
            return len(after) > 1 and tokens[i + 2].token_type is TokenType.STRING
        return len(after) > 1 and after[0] in CHOICES and (after[1] == "OF" or after[1].isdigit())
    if word not in _CLAUSES:
        return False
    follows = tokens[i + 1].token_type if i + 1 < len(tokens) else None
    if word == "WITHIN" and follows is not None and tokens[i + 1].text.upper() == "GROUP":
        return False  # PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)
    followed = (None, TokenType.NUMBER, TokenType.VAR, TokenType.ALIAS)
    return word == "SIMULTANEOUS" or follows in followed


def _check(source: SqlText, tokens: Sequence[Token]) -> None:
    depth = n_signs = 0
    for i, token in enumerate(tokens):
        kind = token.token_type
        if not _is_known(tokens, i):
            raise _refusal(source, token)
        opens = kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
        depth += opens - (kind in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END))
        # NOT NOT NOT and - - - nest as well.
        n_signs = n_signs + 1 if kind in (TokenType.NOT, TokenType.DASH, TokenType.PLUS) else 0
        if depth + n_signs > MAX_NESTING:
            raise CapacityError(f"A text of SQL is nested at most {MAX_NESTING} deep.")


def _is_known(tokens: Sequence[Token], i: int) -> bool:
    """Whether a token is where it has a meaning."""
    kind = tokens[i].token_type
    before = tokens[i - 1].token_type if i else TokenType.L_PAREN
    after = tokens[i + 1].token_type if i + 1 < len(tokens) else None
    is_truth = before in (TokenType.IS, TokenType.NOT)
    if kind is TokenType.SELECT:
        return before in _BEFORE_SELECT
    if kind is TokenType.DISTINCT:  # of SELECT, of COUNT, and IS DISTINCT FROM
        is_count = [one.text.upper() for one in tokens[max(i - 2, 0) : i]] == ["COUNT", "("]
        is_plain = is_count or before in (TokenType.SELECT, TokenType.UNION)
        return after is TokenType.FROM if is_truth else is_plain
    if kind is TokenType.REPLACE:  # the function
        return after is TokenType.L_PAREN
    if kind is TokenType.UNKNOWN:
        return is_truth
    is_date = kind is TokenType.DATE and after is TokenType.STRING
    return kind in _ALLOWED | _ALSO_NAMES and not is_date


def _refusal(source: SqlText, token: Token) -> SqlError:
    kind = token.token_type
    if kind in _REASONS:
        condition, hint = _REASONS[kind]
        return source.refuse(condition, token, hint=hint)
    if kind is TokenType.SELECT:
        return source.refuse("hold one SELECT", token, hint="Nearest: WITH name AS (SELECT ...).")
    if kind is TokenType.SEMICOLON:
        return source.refuse("be one statement", token)
    return source.refuse(
        f"not hold {source.source(token)!r}, which is no part of a question",
        token,
        hint='Names of attributes may stand in double quotes: "name".',
    )
