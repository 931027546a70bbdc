"""Jobs, released answers and their weights: their JSON forms in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, cast

from qserver.errors import StoreCorruptError, StoreError
from qserver.query.linear_query import LinearQuery
from qserver.records.answer import Answer, AnyAnswer, ModelAnswer, WorkloadAnswer
from qserver.records.charge import on_domain
from qserver.records.codec import By, plain, read
from qserver.records.history import (
    AnyMeasurement,
    Estimator,
    Measurement,
    TableMeasurement,
    measured_under,
    place_measurement,
)
from qserver.records.plan import Planned, PlannedRow, PlannedTable
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.storage.encoding.digests import ADVICE, reading, sealed, unsealed

State = Literal["queued", "running", "done", "failed"]
_STATES: dict[str, State] = {
    "queued": "queued",
    "running": "running",
    "done": "done",
    "failed": "failed",
}
_ENDS = {"done": "result", "failed": "problem"}


@dataclass(frozen=True)
class JobRecord:
    """A job in the store.

    Args:
        by: account that asked; '' if there were no accounts.
    """

    id: str
    state: State
    dataset: str
    request: str
    result: str | None
    problem: str | None
    by: str

    @classmethod
    @reading("job")
    def from_fields(cls, job: str, fields: Mapping[str, str]) -> JobRecord:
        """The job of a hash in the store.

        Raises:
            StoreCorruptError: a field is missing or was changed.
        """
        state, dataset = fields["state"], fields["dataset"]
        request = unsealed(fields["request"], name=job)
        found = json.loads(request)
        if state not in _STATES or found["dataset"] != dataset:
            raise StoreCorruptError(f"The store's record of job {job} was changed. {ADVICE}")
        texts = {
            name: unsealed(fields[name], name=job) if name in fields else None
            for name in ("result", "problem")
        }
        if state in _ENDS and not texts[_ENDS[state]]:
            raise StoreCorruptError(f"The store's job {job} has no outcome. {ADVICE}")
        by = str(found.get("by", ""))
        return cls(job, _STATES[state], dataset, request, texts["result"], texts["problem"], by)


def with_rounds(job: JobRecord, rounds: Sequence[JobRecord]) -> JobRecord:
    """The asker's view of a job: running while rounds refine its answer, then ended by the last.

    A round that failed leaves the answer before it.

    Args:
        rounds: the jobs that refine its answer, in turn.
    """
    found = job
    for one in rounds:
        if one.state in ("queued", "running"):
            return replace(job, state="running", result=None)
        if one.state == "done":
            found = replace(job, result=one.result)
    return found


def state_with_rounds(states: Sequence[State | None]) -> State | None:
    """The state of `with_rounds`, from those of the job and its rounds; None without a job."""
    is_refined = states[0] == "done" and {"queued", "running"} & set(states[1:])
    return "running" if is_refined else states[0]


def answer_json(answer: AnyAnswer) -> str:
    """JSON text of an answer of any kind."""
    return json.dumps(plain(answer))


@reading("answer")
def answer_from_json(text: str) -> AnyAnswer:
    """The answer that `answer_json` wrote; StoreCorruptError."""
    found = json.loads(text)
    if "kind" in found:
        return read(ModelAnswer, found)
    for one in found.get("answers", [found]):
        # Answers of earlier versions call the weights so.
        if "method" in one:
            one["weights"] = one.pop("method")
    return read(WorkloadAnswer, found) if "answers" in found else read(Answer, found)


_WEIGHTS = "weights"


def measurement_json(planned: Planned, indices: Sequence[int], job: str) -> str:
    """JSON text of a released row or table, new or one that `refines` another.

    Args:
        indices: lattice indices, one for a row, one per cell for a table.
    """
    # A lattice index may exceed 2^53, so it travels as text.
    text = " ".join(map(str, indices))
    return json.dumps({**plain(planned), "index": text, "job": job})


def public_row_json(row: LinearQuery, key: str, value: Fraction) -> str:
    """JSON text of a public row: exact, without noise, free."""
    step = Fraction(1, value.denominator)
    planned = PlannedRow(row, key, 0, step)
    return measurement_json(planned, [value.numerator], "attach")


def measurements_from_json(
    texts: Sequence[str], *, next_id: int, sizes: Sequence[int], n_known: int = 0
) -> tuple[AnyMeasurement, ...]:
    """The released rows and tables of a history's events, in order.

    Args:
        next_id: number of earlier measurements, without refinements.
        n_known: the first events were read before: their rows are read when they are needed.
    """
    found: list[AnyMeasurement] = []
    readers = [on_domain(tuple(sizes), is_known=known) for known in (False, True)]
    for i, text in enumerate(texts):
        one = json.loads(text)
        refines = one.get("refines")
        number = next_id if refines is None else refines
        next_id += refines is None
        found.append(_measurement(number, one, readers[i < n_known]))
    return tuple(found)


def measurements_in_force(
    texts: Sequence[str], *, sizes: Sequence[int], law: NoiseLaw
) -> list[AnyMeasurement]:
    """The measurements of a whole history by id, each with its last refinement."""
    found: list[AnyMeasurement] = []
    for event in measurements_from_json(texts, next_id=0, sizes=sizes):
        place_measurement(found, measured_under(law, event))
    return found


def _measurement(number: int, event: Mapping[str, Any], by: By) -> AnyMeasurement:
    indices = tuple(map(int, event["index"].split()))
    if "table" in event:
        table = read(PlannedTable, event, by)
        return TableMeasurement(number, table.partition, table.alpha_nano, table.step, indices)
    row = read(PlannedRow, event, by)
    return Measurement(number, row.row, row.key, row.alpha_nano, row.step, *indices)


def estimator_json(estimator: Estimator) -> str:
    """JSON text of certified weights; floats survive exactly."""
    return json.dumps(plain(estimator))


def kept_estimator(estimator: Estimator) -> str:
    """Certified weights in the store's list."""
    return sealed(estimator_json(estimator), name=_WEIGHTS)


@reading("remembered weights")
def read_estimators(texts: Sequence[str]) -> tuple[Estimator, ...]:
    """The weights that `kept_estimator` wrote; StoreCorruptError."""
    return tuple(estimator_from_json(unsealed(text, name=_WEIGHTS)) for text in texts)


def estimator_from_json(text: str) -> Estimator:
    """The weights that `estimator_json` wrote."""
    return read(Estimator, json.loads(text))


def reply_code(reply: object) -> int:
    """The code that begins every script's reply."""
    if not isinstance(reply, list) or not reply:
        raise StoreError("A script of the store gave a reply of another form.")
    return int(cast("int", reply[0]))
