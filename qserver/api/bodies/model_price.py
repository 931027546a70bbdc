"""Bodies of what models cost: learning one, and checking what one says."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field

from qserver.answering.models.price import Would
from qserver.api.bodies.plan import ExplanationBody, OwnPriceBody, PlanTableBody
from qserver.api.bodies.record_body import Epsilon, RecordBody
from qserver.records.answer import ModelAnswer, PlanKind


class ModelWorkBody(RecordBody):
    """What measuring tables and making a model of them takes: from sizes alone, never measured."""

    n_tables: int = Field(description="tables that the model is made from, of history too")
    n_cells: int = Field(description="cells of these")
    memory_bytes: int = Field(description="memory of the process that makes the model, roughly")
    seconds: Annotated[float, AfterValidator(partial(round, ndigits=3))] = Field(
        description="time of one core, roughly, measuring included"
    )


class ModelErrorBody(RecordBody):
    """How errors of a network's parameters reach its answers, before anything is bought.

    By the noise of the tables alone, for a network whose values are all equally likely. Divided by
    the number of records the errors are probabilities.
    """

    eta: int = Field(description="the most edges at an attribute, and one")
    width: int | None = Field(
        description="width of the order of elimination, at least the treewidth; null above 24"
    )
    values: int = Field(description="the most values of an attribute")
    parameter_least: float = Field(
        description="least standard deviation of a parameter", validation_alias="least"
    )
    parameter_greatest: float = Field(
        description="greatest standard deviation of a parameter", validation_alias="greatest"
    )
    term_lower: float = Field(
        description="theorem 4.1: sqrt(eta - 1) parameter_least (1 / values)^(eta - 2)",
        validation_alias="lower",
    )
    term_upper: float | None = Field(
        description="theorem 4.2: 2 eta values^width parameter_greatest; null where `width` is",
        validation_alias="upper",
    )


class ModelExplanationBody(RecordBody):
    """What learning a model would cost and which tables it would buy; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    sample: Epsilon | None = Field(
        description="what of the price is for the sample of `arxiv` and `icml`, else null. With it "
        "each table of `plan` has the most that it may get"
    )
    remaining: Epsilon
    affordable: bool
    plan: list[PlanTableBody] = Field(validation_alias="tables")
    version: int
    work: ModelWorkBody | None = Field(
        description="what the model takes in time and memory; null for a network"
    )
    error: ModelErrorBody | None = Field(
        description="of a network; null where a sample decides on the noise, and of other models"
    )
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )


class ModelQuestionPriceBody(BaseModel):
    """What a question to a model would cost, and what would happen; nothing was spent."""

    source: Literal["model"] = "model"
    model: str = Field(description="id of the model")
    version: int = Field(description="version of the history that the model stands on")
    estimate: float | None = Field(description="what the model expects of the count")
    would: Would = Field(
        description="`tell`: the model's answer, without a guarantee, at no cost; `confirm` or "
        "`contradict`: history does so at no cost; `check`: the check is bought, which decides"
    )
    check: ExplanationBody | None = Field(description="price of the check; null where none is")
    fallback: ExplanationBody | None = Field(
        description="price of the fallback, asked now: after the check it costs the less by what "
        "the check measured of it. Bought only where the check contradicts; null where none is"
    )

    @classmethod
    def of(cls, learnt: ModelAnswer) -> Self:
        """A price of nothing: the model tells its answer."""
        return cls(
            model=learnt.id,
            version=learnt.version,
            estimate=None,
            would="tell",
            check=None,
            fallback=None,
        )
