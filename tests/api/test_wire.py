"""Bodies take the types and the words of their fields from records."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from qserver.api.wire import RecordBody


@dataclass(frozen=True)
class _Part:
    """A part.

    Args:
        size: of it; None for none.
    """

    size: int | None


@dataclass(frozen=True)
class _Whole:
    """A whole.

    Args:
        cost_nano: of all, in nano-epsilon.
        first, last: ends of it.
    """

    cost_nano: int
    first: float
    last: float
    parts: tuple[_Part, ...]

    @property
    def n_parts(self) -> int:
        """How many there are."""
        return len(self.parts)


class _PartBody(RecordBody, record=_Part, shows="size"):
    """A part."""


class _WholeBody(
    RecordBody, record=_Whole, shows="cost begin=first end=last parts n_parts rounded"
):
    """A whole."""

    rounded: int


def test_a_body_has_the_fields_that_it_shows_with_the_types_of_its_record() -> None:
    whole = _Whole(1_500_000_000, 1.0, 2.0, (_Part(3), _Part(None)))
    found = _WholeBody.of(whole, rounded=7).model_dump()
    parts = [{"size": 3}, {"size": None}]
    assert found == {
        "cost": 1.5,
        "begin": 1.0,
        "end": 2.0,
        "parts": parts,
        "n_parts": 2,
        "rounded": 7,
    }


def test_docstrings_say_what_fields_are_in_the_words_of_json() -> None:
    schema = _WholeBody.model_json_schema()
    said = {name: member.get("description") for name, member in schema["properties"].items()}
    assert said == {
        "cost": "of all, in epsilon",
        "begin": "ends of it",
        "end": "ends of it",
        "parts": None,
        "n_parts": "how many there are",
        "rounded": None,
    }
    assert (
        schema["$defs"]["_PartBody"]["properties"]["size"]["description"] == "of it; null for none"
    )
    assert schema["properties"]["cost"]["minimum"] == 0


def test_a_field_that_the_record_lacks_is_an_error_of_the_body() -> None:
    with pytest.raises(KeyError, match="weight"):
        type("_Wrong", (RecordBody,), {}, record=_Part, shows="weight")
