"""Jobs and their answers: their forms in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from qserver.errors import StoreCorruptError
from qserver.records.answer import Answer, AnyAnswer, ModelAnswer, Simultaneous, WorkloadAnswer
from qserver.storage.encoding.sealed import ADVICE, reading, unsealed

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
    """A job in the store."""

    id: str
    state: State
    dataset: str
    request: str
    result: str | None
    problem: str | None

    @classmethod
    @reading("job")
    def from_fields(cls, job: str, fields: Mapping[str, str]) -> JobRecord:
        """The job of a hash in the store.

        Raises:
            StoreCorruptError: a field is missing or was changed.
        """
        state, dataset = fields["state"], fields["dataset"]
        request = unsealed(fields["request"], name=job)
        if state not in _STATES or json.loads(request)["dataset"] != dataset:
            raise StoreCorruptError(f"The store's record of job {job} was changed. {ADVICE}")
        texts = {
            name: unsealed(fields[name], name=job) if name in fields else None
            for name in ("result", "problem")
        }
        if state in _ENDS and not texts[_ENDS[state]]:
            raise StoreCorruptError(f"The store's job {job} has no outcome. {ADVICE}")
        return cls(job, _STATES[state], dataset, request, texts["result"], texts["problem"])


def answer_json(answer: AnyAnswer) -> str:
    """JSON text of an answer of any kind."""
    return json.dumps(asdict(answer))


@reading("answer")
def answer_from_json(text: str) -> AnyAnswer:
    """The answer that `answer_json` wrote; StoreCorruptError."""
    plain = json.loads(text)
    if "kind" in plain:
        return model_answer_from_plain(plain)
    if "answers" not in plain:
        return _answer(plain)
    together = plain["simultaneous"]
    return WorkloadAnswer(
        answers=tuple(map(_answer, plain["answers"])),
        charged_nano=plain["charged_nano"],
        remaining_nano=plain["remaining_nano"],
        simultaneous=None if together is None else Simultaneous(**together),
        version=plain["version"],
    )


def model_answer_from_plain(plain: Mapping[str, Any]) -> ModelAnswer:
    """A model's answer from its plain JSON values."""
    return ModelAnswer(**{**plain, "tables": tuple(plain["tables"])})


def _answer(plain: Mapping[str, Any]) -> Answer:
    return Answer(**{**plain, "evidence": tuple(plain["evidence"])})
