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


@dataclass(frozen=True)
class _Kept:
    """An answer of an engine, after so many changes of it.

    Args:
        at: where it names a price: the only position where it does so.
        is_bought: whether the worker found it, which has all rows in play.
    """

    engine: ref[InferenceEngine]
    since: int
    answer: AnyAnswer
    at: tuple[Cursor, Stamp] | None
    is_bought: bool


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
    ) -> None:
        """Keep an answer of history. A price in it belongs to the present position.

        Args:
            since: `n_changes` of the replica's engine, before it was found.
            is_bought: whether the worker found it.
        """
        kept, key = self._of(asked), _key(replica, asked)
        at = replica.position if _names_prices(answer) else None
        kept.drop(key)
        kept.keep(key, _Kept(ref(replica.engine), since, answer, at, is_bought))

    def keep_shared(
        self, replica: Replica, asked: Workload, answer: WorkloadAnswer, *, is_bought: bool
    ) -> None:
        """Keep another process's answer as history gives it now, unless a later purchase changed
        it.

        Bought intervals that hold at once by a joint bound have weights of their own, and are left.
        """
        now, union = replica.present.remaining_nano, answer.simultaneous
        is_present = (answer.version, answer.remaining_nano) == (replica.n_events, now)
        if is_present and (not is_bought or union is None or union.method == "union"):
            free = replace(answer, answers=tuple(map(_free, answer.answers)), charged_nano=0)
            since = replica.engine.n_changes
            self.keep(replica, asked, free, since=since, is_bought=is_bought)

    def _of(self, asked: Question | Workload) -> LastUsed[_Key, _Kept]:
        return self._workloads if isinstance(asked, Workload) else self._answers


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


def _names_prices(answer: AnyAnswer) -> bool:
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
