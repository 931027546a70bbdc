"""What each statement asked in steps may still be charged, and how it was answered.

A statement is charged what was quoted before its first step at most, whoever asks it and in however
many requests. Once it is answered its questions keep the lengths that they were answered at. So the
same statement asked again asks what history knows, at no cost, whatever it had delivered. A note
holds public facts alone: a price, and lengths that follow from released answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, replace

from qserver.errors import StoreCorruptError, StoreNotDurableError
from qserver.query.requirement import Requirement
from qserver.query.sql.cells import StatementQuestions
from qserver.service.datasets import OpenDatasets
from qserver.storage.encoding.digests import reading, sealed, unsealed
from qserver.storage.store import Store

_SEAL = "statement"


@dataclass(frozen=True)
class StatementNote:
    """What is noted of a statement.

    Args:
        left_nano: most that its further steps may be charged.
        lengths: of its questions, as they were answered; empty as long as steps are left.
    """

    left_nano: int
    lengths: tuple[float, ...] = ()

    @classmethod
    def answered(cls, questions: StatementQuestions) -> StatementNote:
        """The note of a statement that these questions answered."""
        return cls(0, tuple(q.requirement.length for q in questions.questions))

    def as_answered(self, questions: StatementQuestions) -> StatementQuestions:
        """The questions, with the lengths that answered the statement."""
        # Counts asked beside them, once, come last.
        pairs = zip(questions.questions, self.lengths, strict=False)
        with_lengths = tuple(
            question.with_requirement(Requirement(length, question.confidence))
            for question, length in pairs
        )
        return replace(questions, questions=with_lengths)


class StatementNotes:
    """The notes of statements, by dataset and digest. Thread-safe as the store is."""

    def __init__(self, store: Store, datasets: OpenDatasets) -> None:
        self._store = store
        self._datasets = datasets

    def of(self, name: str, digest: str) -> StatementNote | None:
        """The note of a statement; None where it is new or its note is lost."""
        text = self._store.note(self._datasets.meta(name), digest)
        if text is None:
            return None
        with contextlib.suppress(StoreCorruptError), reading("note of a statement"):
            left, lengths = json.loads(unsealed(text, name=_SEAL))
            return StatementNote(int(left), tuple(map(float, lengths)))
        return None

    def keep(self, name: str, digest: str, note: StatementNote) -> None:
        """Keep a note. A store without room changes no answer."""
        text = sealed(json.dumps([note.left_nano, note.lengths]), name=_SEAL)
        with contextlib.suppress(StoreNotDurableError):
            self._store.keep_note(self._datasets.meta(name), digest, text)


def digest_of(asked: StatementQuestions) -> str:
    """What distinguishes statements that ask other numbers or other lengths.

    Names, order and choice of rows have no part in it. Which questions there are depends on the
    text alone, and their lengths are left out: these depend on what is known.
    """
    said = asked.statement
    questions = [
        [q.row.key, str(q.row.multiplier), repr(q.confidence), q.as_of] for q in asked.questions
    ]
    cells = [[[*map(str, c.parts), repr(c.function)] for c in row] for row in asked.cells]
    exact = [said.exactness_of(k) for k in range(len(said.columns))]
    lengths = [[str(one.half_width), str(one.part)] for one in exact]
    clauses = [str(said.clauses.assuming), asked.simultaneous, str(said.clauses.at_most)]
    found = json.dumps([questions, cells, lengths, clauses])
    return hashlib.sha256(found.encode()).hexdigest()
