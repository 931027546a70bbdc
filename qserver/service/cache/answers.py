"""Free answers, kept by the facts that they depend on, not by version or text.

A question is the same however it was written and sent, and its answer stays as long as nothing is
bought that bears on it (`InferenceEngine.is_unchanged`). What is left of the budget, and the
version, are those of whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, overload
from weakref import ref

from qserver.answering.replica import Replica
from qserver.inference.engine import InferenceEngine
from qserver.query.question import Question, Workload
from qserver.records.answer import Answer, AnyAnswer, WorkloadAnswer
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.statements import MOST_KEPT
from qserver.storage.histories import Cursor
from qserver.storage.standings import Stamp

_MOST_ANSWERS: Final = 4_096

_Key = tuple[str, int | None, int, Question | Workload]
State = tuple[int, int, int, int]
"""The number of events, what is left of the budget, and the numbers of periods that were sealed and
whose records were erased: what has no record has no price."""


@dataclass
class _Kept:
    """An answer of an engine, after so many changes of it.

    Args:
        at: where it names a price: the only position where it does so.
        is_bought: whether the worker found it, which has all rows in play.
        job: the job that has it for all processes; '' for none.
        shared_at: the state at which they find it.
    """

    engine: ref[InferenceEngine]
    since: int
    answer: AnyAnswer
    at: tuple[Cursor, Stamp] | None
    is_bought: bool
    job: str
    shared_at: State


class KeptAnswers:
    """The free answers of one process. Thread-safe; callers hold the replica's lock."""

    def __init__(self) -> None:
        self._answers = LastUsed[_Key, _Kept](_MOST_ANSWERS)
        self._workloads = LastUsed[_Key, _Kept](MOST_KEPT)

    def find(self, replica: Replica, asked: Question | Workload) -> AnyAnswer | None:
        """The answer if it is kept and still holds on the present state."""
        known = self._of(asked).find(_key(replica, asked))
        if known is None or known.engine() is not replica.engine:
            return None
        if known.at not in (None, replica.position):
            return None
        keys = [question.row.key for question in asked.questions]
        evidence, is_bought = _evidence(known.answer), known.is_bought
        if not replica.engine.is_unchanged(known.since, evidence, keys, by_all=is_bought):
            return None
        return _at(known.answer, replica.present.remaining_nano, replica.n_events)

    def keep(
        self,
        replica: Replica,
        asked: Question | Workload,
        answer: AnyAnswer,
        *,
        since: int,
        is_bought: bool = False,
        job: str = "",
    ) -> None:
        """Keep an answer of history. A price in it belongs to the present position.

        Args:
            since: `n_changes` of the replica's engine, before it was found.
            is_bought: whether the worker found it.
            job: the job by which all processes find it at the present state; '' for none.
        """
        kept, key = self._of(asked), _key(replica, asked)
        at = replica.position if names_prices(answer) else None
        kept.drop(key)
        known = _Kept(ref(replica.engine), since, answer, at, is_bought, job, state_of(replica))
        kept.keep(key, known)

    def keep_shared(
        self, replica: Replica, asked: Workload, answer: WorkloadAnswer, *, job: str
    ) -> None:
        """Keep an answer that a job has for the present state, as history gives it now.

        Bought intervals that hold at once by a joint bound have weights of their own, and are left.
        """
        union, is_bought = answer.simultaneous, answer.charged_nano > 0
        if not is_bought or union is None or union.method == "union":
            free = replace(answer, answers=tuple(map(_free, answer.answers)), charged_nano=0)
            since = replica.engine.n_changes
            self.keep(replica, asked, free, since=since, is_bought=is_bought, job=job)

    def job_to_share(self, replica: Replica, asked: Workload) -> str:
        """The job that has an answer just found, if others do not find it at this state yet."""
        known, state = self._workloads.find(_key(replica, asked)), state_of(replica)
        if known is None or known.shared_at == state:
            return ""
        known.shared_at = state
        return known.job

    def _of(self, asked: Question | Workload) -> LastUsed[_Key, _Kept]:
        return self._workloads if isinstance(asked, Workload) else self._answers


def state_of(replica: Replica) -> State:
    """What an answer, and the prices in it, stand on."""
    stamp = replica.present
    return replica.n_events, stamp.remaining_nano, *periods_of(stamp)


def periods_of(stamp: Stamp) -> tuple[int, int]:
    """How many periods were sealed, and of how many the records were erased."""
    return stamp.n_sealed or 0, stamp.n_retired


def _key(replica: Replica, asked: Question | Workload) -> _Key:
    """The key. The periods change what can be answered; what may be measured does not."""
    present, meant = replica.present, asked.with_measure("auto")
    return replica.meta.snapshot, present.n_sealed, present.n_retired, meant


def _each(answer: AnyAnswer) -> tuple[Answer, ...]:
    if isinstance(answer, WorkloadAnswer):
        return answer.answers
    return (answer,) if isinstance(answer, Answer) else ()


def _free(answer: Answer) -> Answer:
    """A measured answer, as history gives it."""
    if answer.source == "exact":
        return answer
    return replace(answer, source="history", charged_nano=0)


def _evidence(answer: AnyAnswer) -> set[int]:
    return {i for one in _each(answer) for i in one.evidence}


def names_prices(answer: AnyAnswer) -> bool:
    """Whether it says what more would cost."""
    each = [one.rest_nano for one in _each(answer)]
    if isinstance(answer, WorkloadAnswer):
        each.append(answer.rest_nano)
    return any(price is not None for price in each)


@overload
def _at(answer: Answer, remaining_nano: int, version: int) -> Answer: ...


@overload
def _at(answer: AnyAnswer, remaining_nano: int, version: int) -> AnyAnswer: ...


def _at(answer: AnyAnswer, remaining_nano: int, version: int) -> AnyAnswer:
    """The answer with so much budget left, at this version."""
    if (answer.remaining_nano, answer.version) == (remaining_nano, version):
        return answer
    found = replace(answer, remaining_nano=remaining_nano, version=version)
    if not isinstance(found, WorkloadAnswer):
        return found
    answers = tuple(_at(one, remaining_nano, version) for one in found.answers)
    return replace(found, answers=answers)
