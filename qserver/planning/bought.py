"""What has been bought: blocks and single rows with their alphas, and what they say of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from qserver.charge import NANO
from qserver.errors import InputError
from qserver.inference.lattice.beside import Known, known_of
from qserver.inference.lattice.blocks import Blocks
from qserver.inference.lattice.pattern import BlockKey, Lattice, Pattern
from qserver.planning.allocation import alpha_nano_up
from qserver.planning.blocks_ledger import BlocksLedger, Purchase, Raise, RowRaise
from qserver.primitive import Primitive
from qserver.requirement import Requirement

PUBLIC_NANO = 10**12
"""Alpha that stands for no noise: 1,000 epsilon per record."""
_MAX_PATTERNS = 4096
_ROOM = 1e-9
_LEAST = 1e-9


@dataclass
class Bought:
    """Blocks and rows of one snapshot, with their ledger.

    Args:
        lattice: chains of the attributes.
        ledger: the snapshot's charges; grows with `record`.
        block_nano: alpha per block, in nano-epsilon per record.
        row_nano: alpha per single row, by key.
    """

    lattice: Lattice
    ledger: BlocksLedger
    block_nano: dict[BlockKey, int] = field(default_factory=dict)
    row_nano: dict[str, int] = field(default_factory=dict)
    _patterns: dict[str, Pattern | None] = field(default_factory=dict)
    _blocks: Blocks | None = None

    def __post_init__(self) -> None:
        neighbours = self.ledger.neighbours
        if neighbours.relation == "replace-one" and not neighbours.null_cell:
            # Among a fixed number of records the total is public: a row without noise to speak of.
            self.block_nano.setdefault((), PUBLIC_NANO)

    @property
    def public_blocks(self) -> frozenset[BlockKey]:
        """Blocks that carry no noise: the total among a fixed number of records."""
        return frozenset(b for b, a in self.block_nano.items() if a == PUBLIC_NANO)

    @property
    def blocks(self) -> Blocks:
        """The blocks as they are now."""
        if self._blocks is None:
            self._blocks = self.blocks_with({})
        return self._blocks

    def blocks_with(self, raised: Mapping[BlockKey, Raise]) -> Blocks:
        """The blocks as they would be after these raises."""
        alphas = {**self.block_nano, **{b: r.after for b, r in raised.items()}}
        return Blocks(self.lattice, {b: a / NANO for b, a in alphas.items() if a})

    def pattern(self, query: Primitive) -> Pattern | None:
        """The row seen from the lattice; None where it does not resolve it."""
        if query.key not in self._patterns:
            if len(self._patterns) >= _MAX_PATTERNS:
                self._patterns.clear()
            self._patterns[query.key] = self.lattice.pattern(query.row)
        return self._patterns[query.key]

    def pattern_of_key(self, key: str) -> Pattern:
        """The pattern of a row that was asked for not long ago.

        Raises:
            InputError: there is none.
        """
        found = self._patterns.get(key)
        if found is None:
            raise InputError("key", "be that of a row that the lattice resolves")
        return found

    def known(self, query: Primitive) -> Known:
        """What history says of a query's row."""
        return known_of(self.blocks, self.pattern(query), self.row_nano.get(query.key, 0) / NANO)

    def is_met(self, query: Primitive, requirement: Requirement) -> bool:
        """Whether history meets the requirement, by the exact tail."""
        found = self.known(query).half_width(requirement.confidence)
        return found <= row_half_width(query, requirement)

    def own_row(self, query: Primitive, requirement: Requirement) -> RowRaise:
        """The least raise of the query's own row that meets the requirement with history."""
        pattern = self.pattern(query)
        cell_of = None if pattern is None else pattern.cell_of
        before = self.row_nano.get(query.key, 0)
        if cell_of is not None:
            before = max(before, self.block_nano.get(cell_of, 0))
        alpha = self.known(query).least_row_alpha(
            row_half_width(query, requirement), confidence=requirement.confidence
        )
        raised = Raise(before, max(before + 1, alpha_nano_up(alpha)))
        return RowRaise(query.key, query.row, cell_of, raised)

    def raises(
        self,
        alphas: Mapping[BlockKey, float],
        *,
        part: float = 1.0,
        only: Iterable[BlockKey] | None = None,
    ) -> dict[BlockKey, Raise]:
        """What brings blocks to `part` of these alphas where they are lower, rounded up."""
        found = {}
        for block in alphas if only is None else only:
            before = self.block_nano.get(block, 0)
            after = alpha_nano_up(max(alphas[block] * part, _LEAST))
            if after > before:
                found[block] = Raise(before, after)
        return found

    def record(self, purchase: Purchase) -> None:
        """Take in a purchase that was carried out."""
        self.ledger.record(purchase)
        for row in purchase.rows:
            self.row_nano[row.key] = row.raised.after
        for block, raised in purchase.blocks.items():
            self.block_nano[block] = raised.after
        self._blocks = None if purchase.blocks else self._blocks


def row_half_width(query: Primitive, requirement: Requirement) -> float:
    """The half-width that the query's row may have, with some room for rounding."""
    return requirement.half_width / float(query.sensitivity) * (1.0 - _ROOM)
