"""How a request wants the posterior of its question read, checked on the way in."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import inf, isfinite
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field, StrictInt, WithJsonSchema
from pydantic_core import PydanticCustomError

from qserver.errors import InputError
from qserver.query.asking.prior import WANTED, Prior, prior_of
from qserver.query.asking.reading import (
    LEAST_DRAWS,
    LEAST_ERROR,
    METHODS,
    MOST_DRAWS,
    MOST_ERROR,
    Method,
    Reading,
)


def _number(value: object) -> float:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    number = float(value) if is_number else inf  # type: ignore[arg-type]
    if not isfinite(number):
        raise PydanticCustomError("number", "be a finite number")
    return number


def _method(value: object) -> object:
    if value not in METHODS:
        raise PydanticCustomError("method", "be `auto`, `convolution` or `monte-carlo`")
    return value


def _prior(value: object) -> Prior | None:
    if isinstance(value, Mapping) and isinstance(value.get("between"), list):
        value = {**value, "between": [_plain(end) for end in value["between"]]}
    try:
        return None if value is None else prior_of(value)
    except InputError as exc:
        raise PydanticCustomError("prior", WANTED) from exc


def _plain(value: object) -> object:
    """A number as Python has it: requests are read with exact ones."""
    return float(value) if isinstance(value, Decimal) else value


Number = Annotated[float, BeforeValidator(_number)]
ChosenMethod = Annotated[
    Method,
    BeforeValidator(_method),
    Field(
        description="how probabilities are computed. `auto`: the exact law; `convolution`, "
        "`monte-carlo`: algorithms 2 and 1 of Xiao and Xiong (2012), which know the law of the "
        "estimate's error alone where released answers disagree"
    ),
]
LatticeStep = Annotated[
    Number | None,
    Field(
        description="only with `convolution`: step of its lattice, in the query's units; by "
        "default one that is fine enough for `error`",
        json_schema_extra={"exclusiveMinimum": 0},
    ),
]
NumberOfDraws = Annotated[
    StrictInt | None,
    Field(
        description="only with `monte-carlo`: by default as many as `error` needs",
        json_schema_extra={"minimum": LEAST_DRAWS, "maximum": MOST_DRAWS},
    ),
]
WantedError = Annotated[
    Number,
    Field(
        description="numerical error of probabilities that is wanted; `statement.error` says what "
        "was reached",
        json_schema_extra={"minimum": LEAST_ERROR, "maximum": MOST_ERROR},
    ),
]
_PRIOR_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"type": "null"},
        {"enum": ["non-negative", "known-total"]},
        {
            "type": "object",
            "properties": {
                "between": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                }
            },
            "required": ["between"],
            "additionalProperties": False,
        },
    ]
}
ChosenPrior = Annotated[
    Any,
    BeforeValidator(_prior),
    WithJsonSchema(_PRIOR_SCHEMA),
    Field(
        description="what is held true of the answer beforehand: that it is not negative, that it "
        "is what the public number of records allows, or that it lies between two ends. What is "
        "said is then a Bayesian statement, and no frequency"
    ),
]


class AskedReading(Protocol):
    """The fields of a request that say how a posterior is read."""

    method: Method
    step: float | None
    draws: int | None
    error: float
    prior: Any


def reading_of(asked: AskedReading) -> Reading:
    """The reading that a request names; InputError where it means nothing."""
    return Reading(asked.method, asked.step, asked.draws, asked.error, asked.prior)
