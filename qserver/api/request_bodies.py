"""Request bodies, checked on the way in."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import inf, isfinite
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from qserver.api.errors import fields_problem
from qserver.api.query_schema import JSON_REF
from qserver.errors import InputError
from qserver.requirement import Requirement


def _number(value: object) -> float:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    number = float(value) if is_number else inf  # type: ignore[arg-type]
    if not isfinite(number):
        raise PydanticCustomError("number", "be a finite number")
    return number


Number = Annotated[float, BeforeValidator(_number)]
QueryDocument = Annotated[dict[str, Any], WithJsonSchema({JSON_REF: "Query"})]


class RequestBody(BaseModel):
    """A JSON object with known fields only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """The body that a JSON object holds.

        Raises:
            RequestError: a field is missing, unknown or of the wrong type (422).
        """
        try:
            return cls.model_validate(document)
        except ValidationError as exc:
            raise fields_problem(exc, tuple(cls.model_fields)) from exc


class QueryRequest(RequestBody):
    """A question: what to count, how long the interval may be, and how sure."""

    query: QueryDocument
    length: Number = Field(description="full length of the interval, in the query's own units")
    confidence: Number = Field(description="probability that the interval holds the true answer")

    def requirement(self) -> Requirement:
        """Length and confidence; RequirementError where they are out of range."""
        return Requirement(length=self.length, confidence=self.confidence)


@dataclass(frozen=True)
class Bounds:
    """The closed interval [low, high]; `high` may be infinite."""

    low: float
    high: float


class ProbabilityRequest(RequestBody):
    """A question about where the answer lies; exactly one of `at_least` and `between`."""

    query: QueryDocument
    at_least: Number | None = Field(None, description="asks for P(q >= at_least)")
    between: tuple[Number, Number] | None = Field(
        None, description="[a, b] with a <= b; asks for P(a <= q <= b)"
    )

    def bounds(self) -> Bounds:
        """The interval that is asked about.

        Raises:
            InputError: none or both of the two forms, or the ends in the wrong order.
        """
        if self.between is not None and self.at_least is None:
            low, high = self.between
            if low > high:
                raise InputError("between", "have low <= high", [low, high])
            return Bounds(low, high)
        if self.at_least is None or self.between is not None:
            raise InputError("at_least", "be given, or else `between`, but not both")
        return Bounds(self.at_least, inf)
