"""Values in place of `?`: each is one literal, whatever it holds."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import TokenType

from qserver.client.dbapi import NotSupportedError, ProgrammingError
from qserver.client.dbapi.connection import bound, literal
from qserver.query.sql.tokens import Words

NASTY = st.text(alphabet="'\"`?-/*#{}\\;\n\r\t x5é\u2028", max_size=20) | st.text(max_size=20)


def tokens(text: str) -> list[tuple[TokenType, str]]:
    return [(token.token_type, token.text) for token in Words().tokenize(text)]


@given(NASTY)
def test_a_text_is_one_literal_to_the_server_and_reads_as_itself(value: str) -> None:
    assert tokens(f"a = {literal(value)} AND b") == [
        *tokens("a = "),
        (TokenType.STRING, value),
        *tokens("AND b"),
    ]


@given(st.lists(NASTY | st.integers() | st.booleans(), min_size=2, max_size=2))
def test_values_change_nothing_around_them(values: list[Any]) -> None:
    around = "SELECT '?', \"?\" -- ?\n, /* ? */ n FROM t WHERE x -{}AND y={}"
    found = tokens(bound(around.format("?", "?"), values))
    wanted = tokens(around.format(*(f" {literal(value)} " for value in values)))
    plain = tokens(around.format(" v ", " v "))
    assert found == wanted
    n_signs = sum(isinstance(value, int) and value < 0 for value in values)
    assert len(found) == len(plain) + n_signs


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (np.bool_(False), "FALSE"),
        (-3, "-3"),
        (np.int64(7), "7"),
        (1.5, "1.5"),
        (1e-7, "0.0000001"),
        (np.float32(0.5), "0.5"),
        (Decimal("1E+3"), "1000"),
        (date(2024, 3, 1), "'2024-03-01'"),
        (datetime(2024, 3, 1), "'2024-03-01'"),
        ("it's", "'it''s'"),
    ],
)
def test_each_type_has_its_literal(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize("value", [b"x", object(), [1], datetime(2024, 3, 1, 12)])
def test_what_has_no_literal_is_refused(value: Any) -> None:
    with pytest.raises(NotSupportedError, match="must be a text, a number"):
        literal(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("-Infinity")])
def test_a_number_is_finite(value: Any) -> None:
    with pytest.raises(ProgrammingError, match="finite"):
        literal(value)


@pytest.mark.parametrize("values", [[], [1, 2], "x", {"a": 1}])
def test_there_is_a_value_for_each_place(values: Any) -> None:
    with pytest.raises(ProgrammingError, match=r"`\?`"):
        bound("SELECT ? FROM t", values)


def test_without_values_a_question_mark_stays() -> None:
    assert bound("SELECT ?", None) == "SELECT ?"
