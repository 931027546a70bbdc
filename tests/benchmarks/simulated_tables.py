"""Noisy tables of kept records, with simulated noise: for benchmarks and tests of learning.

The noise is numpy's pseudo-random Laplace noise from a seed. It protects nobody and is not what the
worker draws, which is exact, on a lattice, from the system's entropy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qserver.models.network.learning.estimation import Scope
from qserver.models.network.network import Network, Table, network_of_counts
from qserver.models.network.structure import Structure

Records = NDArray[np.intp]


@dataclass(eq=False)
class SimulatedTables:
    """Tables of `records`, of shape (records, variables), in the structure's order.

    Args:
        generator: of the noise and of samples.
    """

    structure: Structure
    records: Records
    generator: np.random.Generator
    spent: float = 0.0
    _counts: dict[Scope, Table] = field(default_factory=dict)

    def measure(self, scope: Scope, epsilon: float) -> Table:
        """Counts over `scope` with Laplace noise of scale 1 / epsilon."""
        self.spent += epsilon
        counts = self.counts(scope)
        return counts + self.generator.laplace(0.0, 1 / epsilon, counts.shape)

    def sample(self, rate: float) -> SimulatedTables:
        """Each record with probability `rate`."""
        kept = self.generator.random(len(self.records)) < rate
        return SimulatedTables(self.structure, self.records[kept], self.generator)

    def counts(self, scope: Scope) -> Table:
        """The true counts over `scope`, one axis per variable in its order."""
        found = self._counts.get(scope)
        if not scope:
            return np.array(float(len(self.records)))
        if found is None:
            shape = tuple(self.structure.sizes[i] for i in scope)
            flat = np.ravel_multi_index(tuple(self.records[:, i] for i in scope), shape)
            found = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)
            self._counts[scope] = found
        return found

    def with_generator(self, generator: np.random.Generator) -> SimulatedTables:
        """The same records, whose counts are kept, with another generator."""
        return SimulatedTables(self.structure, self.records, generator, 0.0, self._counts)

    def likeliest(self) -> Network:
        """The network of greatest likelihood: what learning without noise gives."""
        structure = self.structure
        tables = [self.counts(structure.family(i)) for i in range(len(structure.variables))]
        return network_of_counts(structure, tables)
