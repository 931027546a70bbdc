"""The live tables on the lattice in use: their blocks, alphas and cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice, Pattern
from qserver.inference.tables.generation import TOTAL, Generation
from qserver.inference.tables.measured import MeasuredTable
from qserver.query.partition import ProductPartition
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO


class PresentTables:
    """The tables of one snapshot as they are now.

    Args:
        generations: the lattices that were in use, the present one last.
    """

    def __init__(self, generations: list[Generation]) -> None:
        self._generations = generations
        self._blocks: Blocks | None = None

    @property
    def lattice(self) -> Lattice:
        """The lattice in use."""
        return self._present.lattice

    @property
    def blocks(self) -> Blocks:
        """The present blocks; alphas in epsilon per record, infinite for a public total."""
        if self._blocks is None:
            self._blocks = Blocks(self.lattice, self._present.alphas)
        return self._blocks

    def blocks_with(self, alphas_nano: Mapping[BlockKey, int]) -> Blocks:
        """The blocks with these alphas replacing, or added to, the present ones."""
        raised = {b: a / NANO for b, a in alphas_nano.items() if b not in self.public_blocks}
        return Blocks(self.lattice, {**self._present.alphas, **raised})

    def steps_with(self, blocks: Iterable[BlockKey], step: float) -> dict[BlockKey, float]:
        """Lattice step per noisy block, in records; new blocks get the given `step`."""
        return {**dict.fromkeys(blocks, step), **self._present.steps}

    @property
    def alpha_nano(self) -> Mapping[BlockKey, int]:
        """Alpha per measured block in nano-epsilon per record, without a public total."""
        return MappingProxyType({b: t.alpha_nano for b, t in self._present.tables.items()})

    @property
    def public_blocks(self) -> frozenset[BlockKey]:
        """The block () if the total is public, else empty."""
        return frozenset([TOTAL] if self._present.public is not None else [])

    def table(self, block: BlockKey) -> MeasuredTable | None:
        """The live table of a block, or None."""
        return self._present.tables.get(block)

    def block_of(self, partition: ProductPartition) -> BlockKey | None:
        """The block whose real cells are the partition's, or None."""
        found = self._present.placement_of(partition)
        return None if found is None else found.block

    def partition_of(
        self, block: BlockKey, periods: frozenset[int] | None = None
    ) -> ProductPartition:
        """The block's real cells, of these periods.

        Raises:
            QueryError: the block has more cells than a table may have.
        """
        return self._present.placement(block, periods).partition

    def covers(self, query: Primitive) -> bool:
        """Whether every table has cells for all periods that a query is about."""
        return self._present.covers(query.row)

    @property
    def measured(self) -> Sequence[MeasuredTable]:
        """The tables on the lattice, in the order of their first measurement."""
        return sorted(self._present.tables.values(), key=lambda table: table.id)

    def pattern(self, query: Primitive) -> Pattern | None:
        """The row's components on the lattice; which ones are zero is known exactly.

        None if the lattice does not resolve the row, or if it has too many components.
        """
        return self._present.pattern(query)

    @property
    def _present(self) -> Generation:
        return self._generations[-1]
