"""A workload's answers under a purchase of blocks, on the noises that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.arrays import FloatArray
from qserver.inference.estimate import RowEstimate
from qserver.inference.law.joint import (
    FAILURE,
    JointErrors,
    joint_confidence,
    least_factor,
    most_work,
)
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.inference.tables.shared_noise import (
    MAX_ENTRIES,
    SharedError,
    error_beside,
    joint_errors,
)
from qserver.planning.holdings import Holdings
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.history import Estimator, Measurement
from qserver.records.statement import JointMethod, Simultaneous


@dataclass(frozen=True, eq=False)
class PlannedAnswer:
    """The planned answer of one question: weights that anybody finds again, and their error."""

    question: Question
    estimator: Estimator
    error: SharedError

    @property
    def half_width(self) -> float:
        """Target half-width of the interval, in records."""
        return self.question.roomy_half_width


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of all questions.

    Args:
        blocks: at the planned alphas.
        at: number of events after which these alphas are in force.
        twins: per answer, whether it uses a row that is also a cell of a table in use. Their
            noises depend on each other, so the union bound counts these answers separately.
    """

    holdings: Holdings
    blocks: Blocks
    at: int
    planned: tuple[PlannedAnswer, ...]
    twins: tuple[bool, ...]

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        """Weights per question."""
        return tuple(p.estimator for p in self.planned)

    def certified(self, wanted: float, *, work: int, n_before: int) -> Simultaneous:
        """The confidence that all intervals of the asked lengths hold at once.

        Args:
            wanted: the asked confidence.
            work: limit of the joint bound's work.
            n_before: number of earlier bounds, whose failure chances count.
        """
        if not self._has_room:
            return Simultaneous(0.0, "union")
        apart = self._apart
        room = 1.0 - wanted - apart - n_before * FAILURE
        if room <= 0.0:
            return Simultaneous(max(0.0, 1.0 - apart), "union")
        bound = joint_confidence(self._together, wanted=1.0 - room, work=work)
        method: JointMethod = bound.method
        outside = bound.outside + apart
        if method == "sampled":
            outside += n_before * FAILURE
        # 1 - x rounds to the nearest; the certified confidence is rounded down.
        return Simultaneous(max(0.0, float(np.nextafter(1.0 - outside, 0.0))), method)

    def work(self, allowed: int) -> int:
        """Most multiplications that a joint bound takes, if this many are allowed."""
        used = set().union(*(p.error.blocks for p in self.planned))
        rows = {i for p in self.planned for i, _ in p.error.rows}
        n_noises = sum(self.blocks.lattice.n_cells(b) for b in used) + len(rows)
        return most_work(len(self.planned), n_noises, allowed)

    def least_factor(self, wanted: float, *, work: int) -> float:
        """Approximate least factor on all alphas at which the joint bound holds."""
        room = 1.0 - wanted - self._apart if self._has_room else 0.0
        if room <= 0.0:
            return 1.0
        return least_factor(self._together, confidence=1.0 - room, work=work).factor

    @property
    def _has_room(self) -> bool:
        """Whether lattice and floats leave every interval some room."""
        return all(p.half_width > p.error.allowance for p in self.planned)

    @cached_property
    def _together(self) -> JointErrors:
        return self._errors([p for p, t in zip(self.planned, self.twins, strict=True) if not t])

    @cached_property
    def _apart(self) -> float:
        """Upper bound of the chance that any of the answers counted apart misses."""
        twins = [p for p, t in zip(self.planned, self.twins, strict=True) if t]
        return sum(float(self._errors([p]).tails().sum()) for p in twins)

    def _errors(self, planned: Sequence[PlannedAnswer]) -> JointErrors:
        engine = self.holdings.engine
        rows = [engine.measurement(i) for i in {i for p in planned for i, _ in p.error.rows}]
        alphas = {row.id: engine.tables.alpha_nano_at(row, self.at) for row in rows}
        return joint_errors(
            [p.error for p in planned],
            _array([p.half_width for p in planned]),
            blocks=self.blocks,
            row_scales={i: NANO / alpha if alpha else 0.0 for i, alpha in alphas.items()},
        )


def answers_with(
    holdings: Holdings,
    questions: Sequence[Question],
    raises: Mapping[BlockKey, int],
    *,
    n_events: int | None = None,
) -> Answers | None:
    """Answers after raising blocks to these alphas; None if one is missing.

    Args:
        holdings: on the later answering lattice.
        questions: each with the confidence that its weights are chosen for; no zero queries.
        raises: in nano-epsilon; empty for the present.
        n_events: events of the history so far; by default those of `holdings`.
    """
    tables = holdings.engine.tables
    blocks = tables.blocks_with(raises) if raises else tables.blocks
    before = tables.n_events if n_events is None else n_events
    return _answers(holdings, questions, blocks, at=before + len(raises))


def answers_after(holdings: Holdings, questions: Sequence[Question], at: int) -> Answers | None:
    """Answers by the weights and the noise after this number of events.

    A bound for them still holds: noise only gets smaller.
    """
    blocks = holdings.engine.tables.blocks_after(at)
    return None if blocks is None else _answers(holdings, questions, blocks, at=at)


def _answers(
    holdings: Holdings, questions: Sequence[Question], blocks: Blocks, *, at: int
) -> Answers | None:
    if len(questions) * sum(blocks.lattice.n_cells(b) for b in blocks.alphas) > MAX_ENTRIES:
        raise CapacityError("The workload has too many answers on too many noises.")
    planned = list[PlannedAnswer]()
    for q in questions:
        found = _planned(holdings, q, blocks, at)
        if found is None:
            return None
        planned.append(found)
    used = set().union(*(p.error.blocks for p in planned))
    twins = tuple(_has_twin(holdings, p.error, used) for p in planned)
    return Answers(holdings, blocks, at, tuple(planned), twins)


def _planned(holdings: Holdings, q: Question, blocks: Blocks, at: int) -> PlannedAnswer | None:
    """The shorter answer: by blocks with the own row, or by measured rows."""
    by_rows = _by_rows(holdings, q)
    found = _on_blocks(holdings, q, blocks, at, shorter_than=by_rows)
    if found is not None or by_rows is None:
        return found
    estimator = by_rows.estimator(q.row.key)
    return PlannedAnswer(q, estimator, holdings.engine.error_of(estimator))


def _on_blocks(
    holdings: Holdings, q: Question, blocks: Blocks, at: int, *, shorter_than: RowEstimate | None
) -> PlannedAnswer | None:
    """The answer by blocks and own row, unless the other one is shorter."""
    pattern, confidence = holdings.pattern(q.row), q.confidence
    if pattern is None or not blocks.alphas or not holdings.covers(q.row):
        return None
    own = holdings.engine.own_after(q.row, at)
    alpha = holdings.engine.tables.alpha_nano_at(own, at)
    beside = holdings.beside(q.row, blocks, own=own, row_alpha_nano=alpha)
    error = error_beside(pattern, beside, own, confidence=confidence)
    if error is None:
        return None
    if shorter_than and not beside.known.is_within(shorter_than.half_width, confidence):
        return None
    if not error.blocks:
        return PlannedAnswer(q, Estimator(q.row.key, error.rows), error)
    return PlannedAnswer(q, Estimator(q.row.key, (), 0.0, at), error)


def _by_rows(holdings: Holdings, q: Question) -> RowEstimate | None:
    enough = q.roomy_half_width
    return holdings.engine.estimate_by_rows(q.row, confidence=q.confidence, enough=enough)


def _has_twin(holdings: Holdings, error: SharedError, used: set[BlockKey]) -> bool:
    """Whether a row behind an answer is a cell of one of the blocks in use."""
    tables, engine = holdings.engine.tables, holdings.engine
    rows: list[Measurement] = [engine.measurement(i) for i, _ in error.rows]
    return any(
        holdings.cells.cell_of(tables.partition_of(block), row.row) is not None
        for row in rows
        if not row.is_public
        for block in used - tables.public_blocks
    )


def _array(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)
