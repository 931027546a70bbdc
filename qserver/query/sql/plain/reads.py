"""Which dataset a text of SQL reads, and whether it asks for a price."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qserver.errors import CapacityError
from qserver.query.sql.plain.pieces import Piece, pieces
from qserver.query.sql.text import SqlText, TextPlace

MAX_CHARACTERS = 1 << 16
EXPLAIN = re.compile(r"\s*EXPLAIN(?=\s)", re.IGNORECASE)
DESCRIBED = re.compile(
    r"\s*(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+FROM)\s+(?:TABLE\s+)?"
    r'(?:"?public"?\.)?(?:"([^"]*)"|([A-Za-z0-9_.-]+))',
    re.IGNORECASE,
)
_CATALOGUED = re.compile(
    r"FROM\s+\"?information_schema\"?\s*\..*\btable_name\"?\s*=\s*'([^']*)'",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = re.compile(r"\s*TABLE\s+(\S+?)\s*(?:;|LIMIT\b|$)", re.IGNORECASE)
_ANALYZED = re.compile(
    r"\s*EXPLAIN(?:\s+(?P<word>ANALYZE|VERBOSE|PLAN|FORMAT)\b|\s*\()", re.IGNORECASE
)
JOINED = (
    "What other tables say of a record is joined by the data's owner, in the SELECT of `attach "
    "--query` (docs/sources.md, Joined tables): then it is an attribute here."
)
NO_SELECT = "compare records with what is public, which no SELECT gives"
ASK_FIRST = "Ask the inner SELECT first, and write the number that it gives in its place."
NO_TEST = (
    "say in a SELECT behind IN by which count it chooses groups: that a group has a record is not "
    "told"
)
CHOOSES = "Nearest: IN (SELECT a FROM ... GROUP BY a HAVING COUNT(*) >= 50)."
_LISTS = "`qserver dataset list`, `Client.datasets()` and GET /v1/datasets list the datasets."
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def explains(text: str) -> bool:
    """Whether a text begins with EXPLAIN."""
    return EXPLAIN.match(text) is not None


def bounded(text: str, field: str) -> SqlText:
    """The text, if it is not too long; CapacityError."""
    if len(text) > MAX_CHARACTERS:
        raise CapacityError(f"A text of SQL has at most {MAX_CHARACTERS:,} characters.")
    return SqlText(text, field)


def check_beginning(source: SqlText) -> None:
    """Raise SqlError where a text begins with what other databases have, and no SELECT follows."""
    if (found := _TABLE.match(source.text)) is not None:
        name = found[1][:60]
        raise source.refuse(
            "count records, not list them",
            TextPlace(found.start(1), found.end(1)),
            hint=f"Nearest: DESCRIBE {name} for its attributes, or COUNT(*) of its records.",
        )
    if (found := _ANALYZED.match(source.text)) is not None:
        word = found["word"] or "options"
        raise source.refuse(
            f"have EXPLAIN without {word.upper() if found['word'] else word}",
            TextPlace(found.start(), found.end()),
            hint="EXPLAIN SELECT ... tells the price and measures nothing; the SELECT alone "
            "measures.",
        )


def dataset_of(text: str) -> str:
    """The name after a text's FROM; looks at nothing else.

    Raises:
        SqlError: there is none.
        CapacityError: the text is too long.
    """
    source = bounded(text, "sql")
    check_beginning(source)
    if (named := DESCRIBED.match(text)) is not None:
        return named[1] or named[2]
    if (named := _CATALOGUED.search(text)) is not None:
        return named[1]
    found = list(pieces(source))
    # A FROM before a parenthesis reads a SELECT that has one of its own.
    start = next((i for i in range(len(found)) if _reads_a_name(found, i)), None)
    if start is None or start + 1 == len(found):
        hint = _LISTS if text.lstrip()[:4].upper() == "SHOW" else "Nearest: FROM and a dataset."
        raise source.refuse("say what it reads", source.end, hint=hint)
    first = found[start + 1]
    after = found[start + 2 : start + 4]
    # A schema before it: its name alone may not be that of a dataset with a dot inside.
    plain = first.name if first.kind == "name" else first.text
    if plain.lower() == "public" and len(after) > 1 and after[0].text == ".":
        first = after[1]
    if first.kind == "name":
        return first.name
    # A name may hold `-` and `.`, which are signs of their own: read to the next space or sign.
    named = _NAME.match(text, first.start)
    if named is None:
        raise source.refuse("name a dataset after FROM", TextPlace(first.start, first.stop))
    return named[0]


def _reads_a_name(found: Sequence[Piece], i: int) -> bool:
    """Whether FROM stands here, and no parenthesis after it.

    It may not be that of EXTRACT(part FROM, or of IS DISTINCT FROM.
    """
    after = found[i + 1].text if i + 1 < len(found) else None
    extracts = i >= 3 and found[i - 3].text.upper() == "EXTRACT"
    compares = i >= 1 and found[i - 1].text.upper() == "DISTINCT"
    is_from = found[i].text.upper() == "FROM" and after != "(" and not compares
    return is_from and not (extracts and found[i - 2].text == "(")
