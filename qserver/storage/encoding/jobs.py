"""Jobs and their answers: their forms in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from qserver.records.answer import Answer, AnyAnswer, ModelAnswer, Simultaneous, WorkloadAnswer


@dataclass(frozen=True)
class JobRecord:
    """A job in the store."""

    id: str
    state: Literal["queued", "running", "done", "failed"]
    dataset: str
    request: str
    result: str | None
    problem: str | None


def answer_json(answer: AnyAnswer) -> str:
    """JSON text of an answer of any kind."""
    return json.dumps(asdict(answer))


def answer_from_json(text: str) -> AnyAnswer:
    """The answer that `answer_json` wrote."""
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
