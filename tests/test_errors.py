"""The error tree: its drawing, its codes, and messages that stay short and safe."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver import errors
from qserver.client import errors as client_errors
from qserver.errors import (
    BudgetExhaustedError,
    DomainError,
    InputError,
    MeasurementError,
    NotEstimableError,
    NotFoundError,
    QServerError,
    QueryError,
    UnanswerableError,
)
from qserver.records import claim

MODULES = (errors.__name__, client_errors.__name__, claim.__name__)


def all_classes() -> list[type[QServerError]]:
    found, rest = [], [QServerError]
    while rest:
        found.append(rest.pop())
        rest += [c for c in found[-1].__subclasses__() if c.__module__ in MODULES]
    return found


def test_drawing_of_the_tree_is_the_tree() -> None:
    """Each line's depth in the drawing against the class's own base."""
    drawn: dict[str, str] = {}
    above = {-1: "Exception"}
    for line in f"{errors.__doc__}{client_errors.__doc__}{claim.__doc__}".splitlines():
        match = re.match(r"([│├└─ ]*)([A-Z]\w*Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            above[depth] = match[2]
            drawn[match[2]] = above[depth - 1]
    assert drawn == {c.__name__: c.__bases__[0].__name__ for c in all_classes()}


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [c.code for c in all_classes()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_input_error_names_field_condition_value_and_hint() -> None:
    error = InputError("age", "be > 0", -1, hint="Ages start at 0.")
    assert str(error) == "`age` must be > 0, got -1. Ages start at 0."
    assert (error.name, error.condition, error.hint) == ("age", "be > 0", "Ages start at 0.")
    assert str(InputError("age", "be given")) == "`age` must be given."
    assert str(InputError("age", "be given", None)) == "`age` must be given, got None."


def test_error_moved_below_a_prefix_keeps_class_and_facts() -> None:
    moved = DomainError("kind", "be known", "text", hint="See `kind`.").under("attributes[2]")
    assert type(moved) is DomainError
    assert str(moved) == "`attributes[2].kind` must be known, got 'text'. See `kind`."
    assert (moved.name, moved.condition, moved.hint) == (
        "attributes[2].kind",
        "be known",
        "See `kind`.",
    )
    assert str(QueryError("", "be given").under("query")) == "`query` must be given."
    assert str(moved.under("domain")).startswith("`domain.attributes[2].kind` must be known")


class Unprintable:
    """A value whose `repr` fails."""

    def __repr__(self) -> str:
        raise ValueError("no")


def nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        -(10**5000),
        "x" * 10**7,
        ["x" * 10**4] * 10**4,
        {str(i): i for i in range(10**5)},
        nested(100_000),
        {"a": nested(100_000)},
        Unprintable(),
        b"x" * 10**6,
        range(10**9),
    ],
    ids=range(10),
)
def test_message_is_short_whatever_was_sent(value: object) -> None:
    text = str(InputError("field", "be small", value))
    assert text.startswith("`field` must be small, got ")
    assert len(text) < 120


@given(st.text(alphabet=st.characters(), max_size=300))
def test_name_is_one_printable_line(name: str) -> None:
    """Names may hold keys that a stranger chose: line ends, escapes, lone surrogates."""
    for error in (InputError(name, "be known"), InputError("x", "be known").under(name or "y")):
        assert error.name.isprintable()
        assert len(error.name) <= 120
        assert str(error) == f"`{error.name}` must be known."
        json.dumps(str(error), ensure_ascii=False).encode()


def test_name_that_fits_is_kept_as_it_is() -> None:
    assert InputError("query.where.größe[3]", "be known").name == "query.where.größe[3]"
    assert InputError("a" * 120, "be known").name == "a" * 120
    assert InputError("a" * 121, "be known").name == "a" * 117 + "..."


def test_budget_error_keeps_both_amounts_and_shows_them_in_epsilon() -> None:
    error = BudgetExhaustedError(price_nano=1_500_000_000, remaining_nano=1)
    assert (error.price_nano, error.remaining_nano) == (1_500_000_000, 1)
    assert "costs 1.5 epsilon and 0.000000001 remain" in str(error)


def test_constant_messages_are_constant() -> None:
    assert str(MeasurementError()).endswith("Its charge, if any was reserved, is kept.")
    assert str(UnanswerableError()).endswith("Nothing was charged or measured.")
    assert "no unbiased estimate" in str(NotEstimableError())
    assert str(NotEstimableError("Another reason.")) == "Another reason."


def test_not_found_error_names_kind_and_name() -> None:
    error = NotFoundError("dataset", "adult" * 100)
    assert (error.kind, error.name) == ("dataset", "adult" * 100)
    assert str(error).startswith("No dataset is called 'adult")
    assert len(str(error)) < 120
