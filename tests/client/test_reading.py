"""Results are read field by field, by name and type, and from elsewhere where a field says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from qserver.client.results import FromJson
from qserver.records.codec import at


@dataclass(frozen=True)
class Part(FromJson):
    size: int
    note: str | None
    unit: str = "records"


@dataclass(frozen=True)
class Whole(FromJson):
    parts: tuple[Part, ...]
    best: Part | None
    passes: bool | None = field(metadata=at("decision", "passes"))
    n_items: int = field(metadata=at("items", by=len))
    document: Mapping[str, Any] = field(metadata=at())


DOCUMENT: dict[str, Any] = {
    "parts": [{"size": 1, "note": "a"}, {"size": 2, "note": None, "unit": "cells"}],
    "best": None,
    "decision": {"passes": False},
    "items": [1, 2, 3],
    "unknown": "to this version of the client",
}


def test_fields_are_read_by_name_type_and_place() -> None:
    assert Whole.of(DOCUMENT) == Whole(
        (Part(1, "a", "records"), Part(2, None, "cells")), None, False, 3, DOCUMENT
    )
    best = Whole.of({**DOCUMENT, "best": {"size": 3}, "decision": None})
    assert (best.best, best.passes) == (Part(3, None), None)


def test_a_member_that_a_result_needs_is_missed_by_its_name() -> None:
    with pytest.raises(KeyError, match="size"):
        Part.of({"note": "a"})
    with pytest.raises(KeyError, match="parts"):
        Whole.of({name: value for name, value in DOCUMENT.items() if name != "parts"})
