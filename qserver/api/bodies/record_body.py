"""Response bodies that are read from records, and how their values are written."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from qserver.api.bodies.query import (
    AXES_SCHEMA,
    INTEGER_SCHEMA,
    PAIR_SCHEMA,
    PRICE_POINT_SCHEMA,
    TERMS_SCHEMA,
)
from qserver.api.wire import epsilon, wire_integer, wire_value

_OPEN_PAIR: dict[str, Any] = {
    **PRICE_POINT_SCHEMA,
    "description": "[low, high], both ends rounded outward; null where there is no end",
}
_CLOSED_PAIR = {**PAIR_SCHEMA, "description": "[low, high], both ends rounded outward"}
_ends = attrgetter("low", "high")

FromNano = Annotated[float, BeforeValidator(epsilon)]
"""Epsilon without a bound or a description of its kind; records have it in nano-epsilon."""
Epsilon = Annotated[
    float, Field(description="in epsilon, a multiple of 1e-9", ge=0), BeforeValidator(epsilon)
]
AsOf = Annotated[
    str | None,
    BeforeValidator(lambda period: period or None),
    Field(
        description="where data arrive over time: the last period that was counted. A question "
        "without an end on the periods counts the sealed ones alone. Else null"
    ),
]
WideInteger = Annotated[
    int, PlainSerializer(wire_integer, return_type=Any), WithJsonSchema(INTEGER_SCHEMA)
]
Terms = Annotated[list[list[Any]], PlainSerializer(wire_value), WithJsonSchema(TERMS_SCHEMA)]
Axes = Annotated[list[list[Any]], WithJsonSchema(AXES_SCHEMA)]
PublicDocument = Annotated[dict[str, Any], BeforeValidator(wire_value)]
OpenInterval = Annotated[
    tuple[float | None, float | None], BeforeValidator(_ends), WithJsonSchema(_OPEN_PAIR)
]
Interval = Annotated[tuple[float, float], WithJsonSchema(_CLOSED_PAIR)]


def _of_epsilon(name: str) -> AliasChoices:
    return AliasChoices(name, f"{name}_nano")


class RecordBody(BaseModel):
    """A body whose fields are read from the attributes of a record.

    A field `name` is read from `name`, or else from `name_nano`. A field that is called otherwise
    in the record says so by its `validation_alias`.
    """

    model_config = ConfigDict(
        from_attributes=True, alias_generator=AliasGenerator(validation_alias=_of_epsilon)
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The record as JSON has it.

        Args:
            more: fields that the record lacks.
        """
        return cls.model_validate(_Joined(record, more) if more else record)


class _Joined:
    """A record with further attributes."""

    def __init__(self, record: object, more: dict[str, object]) -> None:
        self._record = record
        vars(self).update(more)

    def __getattr__(self, name: str) -> object:
        return getattr(self._record, name)
