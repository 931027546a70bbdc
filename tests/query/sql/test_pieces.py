"""Texts of SQL cut without a parser, held to the tokenizer that the server uses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import TokenError, TokenType

from qserver.errors import SqlError
from qserver.query.sql.text import SqlText, pieces
from qserver.query.sql.tokens import Words

SIGNS = r"""SELECT a ' '' " "" ` `` -- /* */ / * {# #} # \ N' E' x 5 . $ é = : % %% @"""
# Beside another sign a question mark is an operator, which no question has.
PARTS = st.sampled_from([*re.split(" ", SIGNS), " ? ", *"\n\r "])
QUOTED = {TokenType.STRING: "text", TokenType.IDENTIFIER: "name"}


def by_server(text: str) -> list[tuple[str, int]] | None:
    """Each quoted text or name, and each `?`, with its kind and end; None where one is open."""
    try:
        tokens = Words().tokenize(text)
    except TokenError:
        return None
    kinds = {**QUOTED, TokenType.PLACEHOLDER: "?", TokenType.NATIONAL_STRING: "text"}
    return [(kinds[t.token_type], t.end + 1) for t in tokens if t.token_type in kinds]


def by_pieces(text: str) -> list[tuple[str, int]] | None:
    try:
        found = list(pieces(SqlText(text)))
    except SqlError:
        return None
    return [
        ("?" if p.text == "?" else p.kind, p.stop)
        for p in found
        if p.text == "?" or p.kind in ("text", "name")
    ]


@given(st.lists(PARTS, max_size=12).map("".join))
def test_quotes_comments_and_places_for_values_are_where_the_server_sees_them(text: str) -> None:
    """A value never lands in a quoted text or in a comment."""
    found = by_pieces(text)
    # What is refused here may be read by the server, such as a comment within a comment.
    assert found is None or found == by_server(text)


@given(st.lists(PARTS.filter(lambda part: not set("/*{") & set(part)), max_size=12))
def test_without_comments_in_it_a_text_is_refused_by_both_or_by_none(parts: list[str]) -> None:
    text = "".join(parts)
    assert by_pieces(text) == by_server(text)


@pytest.mark.parametrize("text", ["/* /* */ */ b", "/*/* */ b", "{# /* */ #} b"])
def test_comments_within_comments_are_refused(text: str) -> None:
    with pytest.raises(SqlError, match="no comment within a comment"):
        list(pieces(SqlText(text)))


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a `b", "/* b", "/*/", "{# b"])
def test_what_does_not_end_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="end each quoted text and comment"):
        list(pieces(SqlText(text)))


def test_names_lose_their_quotes() -> None:
    found = pieces(SqlText("SELECT \"a\"\"b\", `c``d`, 'e''f' -- g\n/* h */ FROM t"))
    assert [p.name if p.kind == "name" else p.text for p in found] == [
        *("SELECT", 'a"b', ",", "c`d", ",", "'e''f'", "FROM", "t"),
    ]
