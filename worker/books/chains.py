"""Chains as drawn, from a snapshot's plans in the order of their release.

Each answer in force stands on a chain of draws. A new draw continues from the answer with the
greatest alpha: its own, or that of the cell which its row is paired with (the row's first
measurement on its step, and the first table on that step which has it as a cell). It must be the
end of its chain, as two draws from one answer cost more than either says. A chain costs its last
alpha, however often it was drawn. A rise to no more than the greatest alpha is no draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.books.cell_functions import Row, Table
from worker.books.journal_lines import BookFaultError

Released = Sequence[Mapping[str, Any]]
"""What the journal has of a job's answers: one entry per row and table, in the plan's order."""


@dataclass(frozen=True)
class Answer:
    """An answer in force.

    Args:
        chain: the chain that it stands on; -1 for a cell that has only its table's.
        drawn: the alpha at which it was drawn.
        alpha: the alpha that it is said to have, which is less if it was released once more.
        index: the released lattice index; None in a plan.
    """

    chain: int
    drawn: int
    alpha: int
    index: int | None = None


@dataclass(frozen=True)
class RowInForce:
    """A measured row; alpha is 0 for a public one."""

    row: Row
    step: str
    answer: Answer

    def is_noisy_at(self, step: str) -> bool:
        """Whether the row has noise on this lattice step."""
        return self.answer.alpha > 0 and self.step == step


@dataclass(frozen=True)
class TableInForce:
    """A measured table, and the answers of cells paired with rows."""

    table: Table
    step: str
    alpha: int
    cells: Mapping[int, Answer]
    indices: Sequence[int] | None = None

    def answer(self, place: int) -> Answer:
        """The answer of one cell."""
        index = self.indices[place] if self.indices is not None else None
        return self.cells.get(place, Answer(-1, self.alpha, self.alpha, index))


@dataclass
class Chains:
    """The answers in force in order of their ids, and each chain's row and last alpha.

    Args:
        are_anew: whether no answer goes on from another one: so it is under zero-concentrated
            privacy, whose charges are rho.
    """

    in_force: list[RowInForce | TableInForce] = field(default_factory=list)
    ends: list[tuple[Row, int]] = field(default_factory=list)
    are_anew: bool = False

    def copy(self) -> Chains:
        """A copy that changes by itself."""
        return Chains(list(self.in_force), list(self.ends), self.are_anew)

    def apply(self, plan: Mapping[str, Any], released: Released | None = None) -> None:
        """Draw what a plan draws: its rows, then its tables.

        Args:
            released: the job's answers, once there are any.

        Raises:
            BookFaultError: a draw costs more than it is charged, or the plan is none.
        """
        entries = iter(released or ())
        if self.are_anew and (
            any("cell" in one for one in plan["rows"])
            or any(one.get("sources") for one in plan["tables"])
            or any(one.get("refines") is not None for one in (*plan["rows"], *plan["tables"]))
        ):
            raise BookFaultError("an answer with Gaussian noise goes on from another one")
        for plain in plan["rows"]:
            self._row(plain, next(entries, None))
        for plain in plan["tables"]:
            self._table(plain, next(entries, None))

    def weights(self) -> dict[Row, int]:
        """The nano-epsilon that each row's size costs: its chains, less its table's own.

        The rest is what `tables` pays for every cell.
        """
        found: dict[Row, int] = {}
        for row, alpha in self.ends:
            found[row] = found.get(row, 0) + alpha
        for one in self.in_force:
            if isinstance(one, TableInForce):
                for answer in one.cells.values():
                    found[self.ends[answer.chain][0]] -= one.alpha
        return found

    def tables(self) -> list[tuple[Table, int]]:
        """The tables with their alphas."""
        return [(t.table, t.alpha) for t in self.in_force if isinstance(t, TableInForce)]

    def _row(self, plain: Mapping[str, Any], entry: Mapping[str, Any] | None) -> None:
        row, step, alpha = Row.of(plain["row"]), str(plain["step"]), int(plain["alpha"])
        charged_from = int(plain.get("old_alpha", 0))
        first, home = self._first(row, step), self._home(row, step)
        number = plain.get("refines")
        named = tuple(plain["cell"]) if "cell" in plain else None
        own = None if number is None else self._get(number)
        if own is not None and (
            not isinstance(own, RowInForce) or (own.row, own.step) != (row, step)
        ):
            raise BookFaultError("a row goes on from an answer to another one")
        if named is not None and (named != home or first != number):
            raise BookFaultError("a row goes on from a cell that it is not paired with")
        is_paired = named is not None or (number is not None and first == number)
        origin = own.answer if isinstance(own, RowInForce) else None
        if entry is None and charged_from != self._planned_from(origin, named):
            raise BookFaultError("a row was planned on answers that are not in force")
        if is_paired and home is not None:
            cell = self._explicit(*home, row)
            if origin is None or cell.alpha > origin.alpha:
                origin = cell
        _check_paid(origin, charged_from)
        index = None if entry is None else int(entry["indices"][0])
        self._put(number, RowInForce(row, step, self._draw(origin, row, alpha, index)))

    def _planned_from(self, own: Answer | None, named: tuple[int, int] | None) -> int:
        """The alpha that a new plan must start from."""
        if named is None:
            return 0 if own is None else own.alpha
        table = self.in_force[named[0]]
        return table.alpha if isinstance(table, TableInForce) else 0

    def _table(self, plain: Mapping[str, Any], entry: Mapping[str, Any] | None) -> None:
        table, step, alpha = Table.of(plain["table"]), str(plain["step"]), int(plain["alpha"])
        if entry is not None and entry.get("alpha_nano"):
            alpha = int(entry["alpha_nano"])  # decided by a sample
        number = plain.get("refines")
        old = TableInForce(table, step, 0, {}) if number is None else self._get(number)
        if not isinstance(old, TableInForce) or (old.table, old.step) != (table, step):
            raise BookFaultError("a table goes on from an answer to another one")
        if old.alpha < int(plain.get("old_alpha", 0)) or alpha <= old.alpha:
            raise BookFaultError("a table is charged less than its rise")
        if entry is None and old.alpha != int(plain.get("old_alpha", 0)):
            raise BookFaultError("a table was planned on answers that are not in force")
        indices = None if entry is None else tuple(map(int, entry["indices"]))
        origins = {} if self.are_anew else self._origins(number, old)
        for place, _, paid in plain.get("sources", ()):
            if place not in origins or origins[place][1].alpha < min(int(paid), alpha):
                raise BookFaultError("a cell goes on from a row that paid less than the cell says")
        cells = {
            place: self._draw(origin, row, alpha, indices[place] if indices else None)
            for place, (row, origin) in origins.items()
        }
        self._put(number, replace(old, alpha=alpha, cells=cells, indices=indices))

    def _origins(self, number: int | None, old: TableInForce) -> dict[int, tuple[Row, Answer]]:
        """The row per cell with chains of its own, and the answer that a rise continues."""
        found: dict[int, tuple[Row, Answer]] = {
            place: (self.ends[answer.chain][0], answer) for place, answer in old.cells.items()
        }
        here = len(self.in_force) if number is None else number
        seen = set()
        for place, one in self._rows_in(old.table, old.step):
            home = self._home(one.row, one.step)
            if place in seen or (home is not None and home[0] < here):
                continue
            seen.add(place)
            if one.answer.alpha > old.alpha:
                found[place] = (one.row, one.answer)
                if number is not None:
                    self._explicit(number, place, one.row)
        return found

    def _rows_in(self, table: Table, step: str) -> Iterator[tuple[int, RowInForce]]:
        """The noisy rows on this step that are cells of a table."""
        for one in self.in_force:
            if isinstance(one, RowInForce) and one.is_noisy_at(step):
                place = table.place_of(one.row)
                if place is not None:
                    yield place, one

    def _draw(self, origin: Answer | None, row: Row, alpha: int, index: int | None) -> Answer:
        """The answer at `alpha` that continues `origin`."""
        if origin is None:
            self.ends.append((row, alpha))
            return Answer(len(self.ends) - 1, alpha, alpha, index)
        if origin.alpha >= alpha:
            if None not in (index, origin.index) and index != origin.index:
                raise BookFaultError("an answer was released once more as another one")
            return replace(origin, alpha=alpha)
        if origin.drawn != origin.alpha:
            raise BookFaultError("a draw goes on from an answer with less noise than the draw says")
        if self.ends[origin.chain] != (row, origin.alpha):
            raise BookFaultError("an answer is drawn from twice")
        self.ends[origin.chain] = (row, alpha)
        return Answer(origin.chain, alpha, alpha, index)

    def _explicit(self, number: int, place: int, row: Row) -> Answer:
        """The answer of a table's cell, which from now on has its own chain."""
        table = self.in_force[number]
        assert isinstance(table, TableInForce)  # noqa: S101
        answer = table.answer(place)
        if answer.chain < 0:
            self.ends.append((row, table.alpha))
            answer = replace(answer, chain=len(self.ends) - 1)
            self.in_force[number] = replace(table, cells={**table.cells, place: answer})
        return answer

    def _first(self, row: Row, step: str) -> int | None:
        """The first noisy measurement of a row on this step."""
        for number, one in enumerate(self.in_force):
            if isinstance(one, RowInForce) and one.row == row and one.is_noisy_at(step):
                return number
        return None

    def _home(self, row: Row, step: str) -> tuple[int, int] | None:
        """The first table on this step with the row as a cell, and the cell."""
        for number, one in enumerate(self.in_force):
            if isinstance(one, TableInForce) and one.step == step:
                place = one.table.place_of(row)
                if place is not None:
                    return number, place
        return None

    def _get(self, number: int) -> RowInForce | TableInForce:
        if not 0 <= number < len(self.in_force):
            raise BookFaultError("a plan goes on from an answer that is not in force")
        return self.in_force[number]

    def _put(self, number: int | None, new: RowInForce | TableInForce) -> None:
        if number is None:
            self.in_force.append(new)
        else:
            self.in_force[number] = new


def _check_paid(origin: Answer | None, charged_from: int) -> None:
    if charged_from > (0 if origin is None else origin.alpha):
        raise BookFaultError("a row is charged less than its draw costs")
