"""How records travel in JSON: epsilon as a decimal number, wide integers as texts.

`RecordBody` is what all bodies of records have in common. Such a body names the fields of its
record that it shows; their types are those of the record, and what is said of them stands in the
record's docstring.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, reduce
from inspect import cleandoc, getdoc
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from pydantic import (
    AliasChoices,
    AliasGenerator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
)
from pydantic.fields import FieldInfo

from qserver.records.answer import Offer

SAFE_INTEGER = (1 << 53) - 1
NANO = 10**9


def epsilon(nano: int) -> float:
    """`nano` / 10^9, correctly rounded: it prints as the exact decimal below 10^15 nano."""
    return nano / NANO


def wire_integer(value: int) -> int | str:
    """The integer itself, or its decimal text where a double could not hold it."""
    return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)


def wire_value(value: Any) -> Any:
    """A JSON value with every wide integer in it as a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return wire_integer(value)
    if isinstance(value, list | tuple):
        return [wire_value(v) for v in value]
    if isinstance(value, dict):
        return {k: wire_value(v) for k, v in value.items()}
    return value


def free_document(free: Offer | Sequence[Offer | None] | None) -> Any:
    """The free interval or null; for a workload one of these per question."""
    if free is None or isinstance(free, Offer):
        return free and offer_document(free)
    return [offer and offer_document(offer) for offer in free]


def offer_document(offer: Offer) -> dict[str, Any]:
    """The free interval of history."""
    return {
        "interval": [offer.low, offer.high],
        "confidence": offer.confidence,
        "free_length": offer.free_length,
        "law": offer.law,
    }


FromNano = Annotated[float, BeforeValidator(epsilon)]
"""Epsilon without a bound or a description of its kind; records have it in nano-epsilon."""
Epsilon = Annotated[
    float, Field(description="in epsilon, a multiple of 1e-9", ge=0), BeforeValidator(epsilon)
]
_NANO = "_nano"


def _of_epsilon(name: str) -> AliasChoices:
    return AliasChoices(name, f"{name}{_NANO}")


class RecordBody(BaseModel):
    """A body whose fields are read from the attributes of a record.

    Args:
        record: its type.
        shows: the fields in their order. `name` is read from the record's `name` or `name_nano`,
            and `name=path` from another attribute, or one of an attribute's.

    A field that JSON has in another form than the record is written out in the body itself.
    """

    model_config = ConfigDict(
        from_attributes=True, alias_generator=AliasGenerator(validation_alias=_of_epsilon)
    )
    bodies: ClassVar[dict[type, Any]] = {}
    """By the type of a record how JSON has it."""

    def __init_subclass__(cls, *, record: type | None = None, shows: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if record is None:
            return
        # The class's own docstring: pydantic's inherited ones cannot be read.
        own = type("", (), {"__annotations__": vars(cls).get("__annotations__", {})})
        own.__module__ = cls.__module__
        written = hints_of(own, include_extras=True)
        by_hand, shown = set(written), dict[str, Any]()
        for one in shows.split():
            name, _, source = one.partition("=")
            shown[name] = written.pop(name, None) or _type_of(record, source or name)
            if name not in vars(cls):
                is_told = name in by_hand and _is_told(shown[name])
                text = None if is_told else _told(record, source or name)
                found: dict[str, Any] = {} if text is None else {"description": text}
                if source:
                    found["validation_alias"] = AliasPath(*source.split("."))
                setattr(cls, name, Field(**found))
        cls.__annotations__ = shown | written
        cls.bodies[record] = cls

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The record as JSON; `more`: fields that the record lacks."""
        return cls.model_validate(_Joined(record, more) if more else record)


class EpsilonBody(RecordBody):
    """A body with amounts of epsilon."""

    delta: float | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="of a population under zcdp: amounts are epsilon at it. Absent under pure "
        "privacy",
    )


class _Joined:
    """A record with further attributes."""

    def __init__(self, record: object, more: dict[str, object]) -> None:
        self._record = record
        vars(self).update(more)

    def __getattr__(self, name: str) -> object:
        return getattr(self._record, name)


@cache
def _hints(record: type) -> Mapping[str, Any]:
    """The types of a record's fields and properties."""
    found = hints_of(record)
    for name in dir(record):
        made = getattr(record, name)
        if isinstance(made, property | cached_property):
            found[name] = hints_of(_maker(made))["return"]
    return found


def _is_told(hint: Any) -> bool:
    """Whether a type documents itself."""
    said = getattr(hint, "__metadata__", ())
    return any("description" in (getattr(one, "json_schema", None) or ()) for one in said) or any(
        isinstance(one, FieldInfo) and one.description for one in said
    )


def _maker(made: Any) -> Any:
    return made.fget if isinstance(made, property) else made.func


def _held(record: type, path: str) -> tuple[type, str]:
    """The record with the attribute of a path, and the attribute's name."""
    first, _, rest = path.partition(".")
    if rest:
        return _held(_hints(record)[first], rest)
    return record, path if path in _hints(record) else path + _NANO


def _type_of(record: type, path: str) -> Any:
    holder, name = _held(record, path)
    return _shown(_hints(holder)[name], is_nano=name.endswith(_NANO))


def _shown(hint: Any, *, is_nano: bool = False) -> Any:
    """The JSON type for a record's type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return reduce(or_, (_shown(one, is_nano=is_nano) for one in inner))
    if origin is tuple and inner[-1] is Ellipsis:
        return list[_shown(inner[0], is_nano=is_nano)]  # type: ignore[misc]
    if origin is Literal or hint is NoneType:
        return hint
    return Epsilon if is_nano else RecordBody.bodies.get(hint, hint)


_WORDS = {
    r"(?<=\. )None\b": "Null",
    r"\bNone\b": "null",
    "nano-epsilon": "epsilon",
    r"(`\w+)_nano`": r"\1`",
}
"""What a docstring of Python says, and what JSON calls it."""


@cache
def _texts(record: type) -> Mapping[str, str]:
    """The docstrings' texts on each argument of a record; equal ones of several are kept."""
    found: dict[str, str] = {}
    for kind in reversed(record.__mro__):
        _, _, said = cleandoc(kind.__doc__ or "").partition("Args:\n")
        for names, text in re.findall(r"(?ms)^ {4}(\w[\w, ]*): (.*?)(?=^ {4}\w|^\S|\Z)", said):
            found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def _told(record: type, path: str) -> str | None:
    """The text on an attribute, in the words of JSON."""
    holder, name = _held(record, path)
    text = _texts(holder).get(name)
    made = getattr(holder, name, None)
    if text is None and isinstance(made, property | cached_property):
        said = " ".join((getdoc(_maker(made)) or "").partition("\n\n")[0].split())
        text = said[:1].lower() + said[1:]
    if not text:
        return None
    for python, json in _WORDS.items():
        text = re.sub(python, json, text)
    return text.rstrip(".")
