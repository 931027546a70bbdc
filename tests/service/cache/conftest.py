"""What a process answers from its history, beside what it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from qserver.answering.decide import to_answer
from qserver.answering.replica import Replica
from qserver.query.question import Question, Workload
from qserver.service import ask


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Question | Workload]:
    """What is answered from history, and not from what is kept."""
    found = list[Question | Workload]()

    def noted(replica: Replica, asked: Question | Workload) -> Any:
        found.append(asked)
        return to_answer(replica, asked)

    monkeypatch.setattr(ask, "to_answer", noted)
    return found
