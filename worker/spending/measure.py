"""Draw the released answers of a plan: rows and tables, new and refined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from qserver.errors import InputError, MeasurementError
from qserver.records.plan import Planned, PlannedRow, PlannedTable
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from worker.noise.mechanism import release, release_gaussian, release_refined
from worker.noise.randomness import Entropy
from worker.private.record_tables import Tables
from worker.spending.answers_in_force import Live, Origin


class IndexSource(Protocol):
    """A source of lattice indices: noisy counts, or placeholders of a rehearsal."""

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        """The index of a row, given the answer that it continues from."""
        ...

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        """The indices of a table, one per cell, given the answers that cells continue."""
        ...


def draw_all(
    planned: Sequence[Planned],
    *,
    private: Tables,
    live: Live,
    entropy: Entropy,
    law: NoiseLaw,
) -> list[tuple[int, ...]]:
    """Lattice indices of the released answers: one for a row, one per cell for a table.

    Args:
        planned: rows, then tables, checked against `live`.
        private: the data that are counted.
        live: the measurements in force; the new ones are added.
        law: of the noise of the population.

    Raises:
        MeasurementError: a value is out of range or no exact number, or the plan is none that this
            noise can serve.
    """
    check_law(planned, law)
    return in_turn(planned, source=_Drawing(private, entropy, law), live=live)


def check_law(planned: Sequence[Planned], law: NoiseLaw) -> None:
    """Raise MeasurementError unless a plan can be drawn with this noise.

    With Gaussian noise all is measured anew: it is independent of all that was drawn.
    """
    if law.is_additive and not all(map(_is_new, planned)):
        raise MeasurementError from InputError("plan", "measure anew, and go on from no answer")


def _is_new(one: Planned) -> bool:
    goes_on = one.cell if isinstance(one, PlannedRow) else one.sources
    return one.refines is None and not goes_on and not one.old_alpha_nano


def in_turn(
    planned: Sequence[Planned], *, source: IndexSource, live: Live
) -> list[tuple[int, ...]]:
    """The indices of every planned row and table, each drawn once earlier ones are in force.

    Args:
        live: the measurements in force; the new ones are added.

    Raises:
        MeasurementError: an answer in force has more noise than was paid for.
    """
    found = []
    for one in planned:
        if isinstance(one, PlannedRow):
            indices: tuple[int, ...] = (source.of_row(one, live.origin_of_row(one)),)
        else:
            indices = source.of_table(one, live.origins_of_cells(one))
        live.take_in(one, indices)
        found.append(indices)
    return found


@dataclass(frozen=True, repr=False)
class _Drawing:
    """Counts with noise."""

    private: Tables
    entropy: Entropy
    law: NoiseLaw = LAPLACE

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        truths = [self.private.answer(row.row)]
        if self.law.is_additive:
            return self._gaussian(truths, row)[0]
        origins = {} if origin is None else {0: origin}
        (index,) = draw_answers(truths, row, origins, entropy=self.entropy)
        return index

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        counts = self.private.counts(table.partition)
        if not self.law.is_additive:
            return draw_table(counts, table, origins, entropy=self.entropy)
        if len(counts) != table.partition.n_cells:
            raise MeasurementError
        return self._gaussian(counts, table)

    def _gaussian(self, truths: Sequence[Fraction | int], planned: Planned) -> tuple[int, ...]:
        """Indices with their own noise, whatever was released."""
        step, rho = planned.step, planned.alpha_nano
        return tuple(release_gaussian(truths, step=step, rho_nano=rho, entropy=self.entropy))


def draw_table(
    counts: Sequence[int],
    table: PlannedTable,
    origins: Mapping[int, Origin],
    *,
    entropy: Entropy,
) -> tuple[int, ...]:
    """Lattice indices of a table's released answers, one per cell.

    Args:
        counts: exact counts, one per cell of the partition, row-major.
        origins: the answers that cells continue from, by cell.

    Raises:
        MeasurementError: the counts are not one per cell, or as for `draw_answers`.
    """
    if len(counts) != table.partition.n_cells:
        raise MeasurementError
    return draw_answers(counts, table, origins, entropy=entropy)


def draw_answers(
    truths: Sequence[Fraction | int],
    planned: Planned,
    origins: Mapping[int, Origin],
    *,
    entropy: Entropy,
) -> tuple[int, ...]:
    """Lattice indices of released answers.

    Without an origin the noise is new and independent. An origin with more noise than planned is
    refined. An origin with no more noise than planned is released again as it is: that costs
    nothing more, and its noise is at most the stated one.

    Args:
        truths: exact answers of the row, or of each cell of the table, in records.
        planned: the row or table, with its lattice step and alpha.
        origins: the answers that they continue from, by their place.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    step, alpha = planned.step, planned.alpha_nano
    found = {i: one.index for i, one in origins.items() if one.alpha_nano >= alpha}
    fresh = [i for i in range(len(truths)) if i not in origins]
    raised = [i for i in range(len(truths)) if i in origins and i not in found]
    if fresh:
        new = release([truths[i] for i in fresh], step=step, alpha_nano=alpha, entropy=entropy)
        found.update(zip(fresh, new, strict=True))
    if raised:
        refined = release_refined(
            [truths[i] for i in raised],
            released=[origins[i].index for i in raised],
            step=step,
            old_alphas_nano=[origins[i].alpha_nano for i in raised],
            new_alpha_nano=alpha,
            entropy=entropy,
        )
        found.update(zip(raised, refined, strict=True))
    return tuple(found[i] for i in range(len(truths)))
