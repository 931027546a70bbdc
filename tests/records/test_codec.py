"""Dataclasses become plain JSON values and come back, by their fields and types alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

import pytest

from qserver.records.codec import ALWAYS, as_, at, plain, read


@dataclass(frozen=True)
class _Pair:
    as_list: ClassVar = True

    first: int
    second: float
    third: bool | None = None


@dataclass(frozen=True)
class _Inner:
    word: Literal["a", "b"]
    step: Fraction
    size: int | None = field(default=None, metadata=ALWAYS)


@dataclass(frozen=True)
class _Outer:
    number: int = field(metadata=as_("n", last=1))
    names: tuple[str, ...]
    inner: _Inner | None = None
    pairs: tuple[_Pair, ...] = ()
    ends: tuple[tuple[int, _Inner], ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


_INNER = _Inner("b", Fraction(1, 3))
_WHOLES = [
    (_Outer(1, ()), '{"names": [], "more": {}, "n": 1}'),
    (
        _Outer(
            2, ("x",), _INNER, (_Pair(1, 0.5), _Pair(2, 1.5, third=True)), ((7, _INNER),), {"k": []}
        ),
        '{"names": ["x"], "inner": {"word": "b", "step": "1/3", "size": null}, '
        '"pairs": [[1, 0.5], [2, 1.5, true]], '
        '"ends": [[7, {"word": "b", "step": "1/3", "size": null}]], "more": {"k": []}, "n": 2}',
    ),
]


@pytest.mark.parametrize(("whole", "text"), _WHOLES)
def test_what_is_written_is_read_back_equal(whole: _Outer, text: str) -> None:
    assert json.dumps(plain(whole)) == text
    assert read(_Outer, json.loads(text)) == whole


def test_a_default_is_left_out_and_stands_for_a_member_that_is_missing() -> None:
    assert plain(_Pair(1, 2.0)) == [1, 2.0]
    assert read(_Inner, {"word": "a", "step": "2", "unknown": 3}) == _Inner("a", Fraction(2))
    with pytest.raises(KeyError, match="step"):
        read(_Inner, {"word": "a"})


@dataclass(frozen=True)
class _Found:
    deep: int | None = field(metadata=at("outer", "deep"))
    length: int = field(metadata=at("items", by=lambda items: len(items or ())))
    whole: Any = field(metadata=at())


def test_a_field_may_stand_elsewhere_or_be_made_from_what_stands_there() -> None:
    document = {"outer": {"deep": 4}, "items": [1, 2]}
    assert read(_Found, document) == _Found(4, 2, document)
    assert read(_Found, {}) == _Found(None, 0, {})


def test_types_that_depend_on_more_are_read_and_written_by_the_caller() -> None:
    document = plain(_Outer(1, (), _INNER), {_Inner: lambda inner: inner.word})
    assert document["inner"] == "b"
    assert read(_Outer, document, {_Inner: lambda _: _INNER}).inner == _INNER
