"""Noise on blocks and rows as they are bought and refined: to count intervals that miss.

The counts do not matter: an interval misses just when the error of its estimate is larger than
its half-width. So only noise is drawn, by the continuous law, in vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from qserver.charge import NANO
from qserver.inference.classes import FloatArray
from qserver.inference.lattice.beside import known_of
from qserver.inference.lattice.blocks import Blocks
from qserver.inference.lattice.pattern import BlockKey, Pattern
from qserver.planning.blocks_ledger import Purchase, Raise
from qserver.planning.bought import Bought
from qserver.primitive import Primitive


@dataclass
class SyntheticNoise:
    """The noise of everything that was bought."""

    generator: np.random.Generator
    bought: Bought
    blocks: dict[BlockKey, FloatArray] = field(default_factory=dict)
    rows: dict[str, float] = field(default_factory=dict)
    patterns: dict[str, Pattern] = field(default_factory=dict)

    def follow(self, purchase: Purchase) -> None:
        """Draw or refine what the purchase raises; call it before it is recorded."""
        chains = self.bought.lattice.chains
        for block, raised in purchase.blocks.items():
            shape = [chains[a].n_parts[level] for a, level in block]
            before, after = raised.before / NANO, raised.after / NANO
            old = self.blocks.get(block)
            drawn = self.generator.laplace(0.0, 1.0 / after, shape)
            self.blocks[block] = drawn if old is None else self._refined(old, before, after)
            self._take_over(block, raised)
        for row in purchase.rows:
            before, after = row.raised.before / NANO, row.raised.after / NANO
            pattern = self.bought.pattern_of_key(row.key)
            self.patterns[row.key] = pattern
            held = self.rows.get(row.key)
            if row.cell_of in self.bought.block_nano and self.bought.row_nano.get(
                row.key, 0
            ) <= self.bought.block_nano.get(row.cell_of, 0):
                held = self._of_cell(pattern)
            if held is None:
                self.rows[row.key] = float(self.generator.laplace(0.0, 1.0 / after))
            else:
                self.rows[row.key] = float(self._refined(np.array([held]), before, after)[0])

    def _take_over(self, block: BlockKey, raised: Raise) -> None:
        """Cells that were rows of their own are those rows, refined where the block is finer."""
        for key, noise in self.rows.items():
            pattern, alpha_nano = self.patterns[key], self.bought.row_nano[key]
            if pattern.cell_of != block or alpha_nano <= raised.before:
                continue
            if alpha_nano < raised.after:
                alphas = (alpha_nano / NANO, raised.after / NANO)
                noise = float(self._refined(np.array([noise]), *alphas)[0])
            self.blocks[block][_index(pattern)] = noise

    def error(self, query: Primitive, confidence: float) -> float:
        """Error of the estimate given of the query's row."""
        pattern, blocks = self.bought.pattern(query), self.bought.blocks
        own_alpha = self.bought.row_nano.get(query.key, 0) / NANO
        known = known_of(blocks, pattern, own_alpha)
        weight = known.shortest(confidence).row_weight
        own = 0.0
        cell = None if pattern is None else pattern.cell_of
        is_cell = cell is not None and cell in blocks.alphas
        if weight:
            refined = is_cell and own_alpha <= blocks.alphas.get(cell or (), 0.0)
            own = (
                self._of_cell(pattern) if refined and pattern is not None else self.rows[query.key]
            )
        if pattern is None or weight == 1.0:
            return own
        total = self._on_blocks(blocks, query)
        if is_cell:
            share = blocks.weight_of_itself(pattern)
            total = (total - share * self._of_cell(pattern)) / (1.0 - share)
        return (1.0 - weight) * total + weight * own

    def _on_blocks(self, blocks: Blocks, query: Primitive) -> float:
        pattern = self.bought.pattern(query)
        if pattern is None:
            raise RuntimeError("A query that the lattice does not resolve has no blocks.")
        public = self.bought.public_blocks
        return sum(
            float((w.dense * self.blocks[w.block]).sum())
            for w in blocks.weights(pattern)
            if w.block not in public
        )

    def _of_cell(self, pattern: Pattern) -> float:
        block = pattern.cell_of or ()
        if block in self.bought.public_blocks:
            return 0.0
        return float(self.blocks[block][_index(pattern)])

    def _refined(self, noise: FloatArray, before: float, after: float) -> FloatArray:
        """The noise at 1 / b = `after`, given that at `before`: the law of design and README."""
        u = self.generator.uniform(size=noise.shape)
        size, sign = np.abs(noise), np.where(noise < 0.0, -1.0, 1.0)
        gap = after - before
        stay = before / after * np.exp(-gap * size)
        other = gap / (2.0 * after)
        between = (before + after) / (2.0 * after) * -np.expm1(-gap * size)
        tail = self.generator.exponential(1.0 / (before + after), noise.shape)
        within = -np.log1p(self.generator.uniform(size=noise.shape) * np.expm1(-gap * size)) / gap
        magnitude = np.where(
            u < stay,
            size,
            np.where(
                u < stay + other,
                -tail,
                np.where(u < stay + other + between, within, size + tail),
            ),
        )
        return np.asarray(sign * magnitude)


def _index(pattern: Pattern) -> tuple[int, ...]:
    """Where a query that is a cell is in its block."""
    return tuple(pattern.cell_parts[a] for a, _ in pattern.cell_of or ())
