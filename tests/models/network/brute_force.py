"""Answers of a network from its whole joint distribution: by definition, without cleverness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qserver.models.network.network import Network, normalised
from qserver.models.network.structure import Structure, Variable


def joint(network: Network) -> np.ndarray:
    """P of every cell, one axis per variable in the structure's order."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    structure = network.structure
    terms = ["".join(letters[j] for j in structure.family(i)) for i in range(len(network.cpds))]
    return np.einsum(",".join(terms) + "->" + letters[: len(terms)], *network.cpds, optimize=True)


def conditional(network: Network, names: Sequence[str], evidence: Mapping[str, str]) -> np.ndarray:
    """P(names | evidence), one axis per name."""
    structure, table = network.structure, joint(network)
    for name, label in evidence.items():
        i = structure.index(name)
        chosen = [slice(None)] * table.ndim
        chosen[i] = slice(structure.label_index(i, label), structure.label_index(i, label) + 1)
        table = table[tuple(chosen)]
    asked = [structure.index(n) for n in names]
    rest = tuple(i for i in range(table.ndim) if i not in asked)
    summed = table.sum(axis=rest)
    order = sorted(asked)
    return (summed / summed.sum()).transpose([order.index(i) for i in asked])


def random_network(seed: int, *, n_variables: int = 7) -> Network:
    """A network of variables of 2 to 4 values with up to 3 parents each, some rows with zeros."""
    rng = np.random.default_rng(seed)
    variables: list[Variable] = []
    for i in range(n_variables):
        n_parents = int(rng.integers(0, min(i, 3) + 1))
        parents = rng.permutation(i)[:n_parents]
        labels = tuple(f"l{k}" for k in range(int(rng.integers(2, 5))))
        variables.append(Variable(f"v{i}", labels, tuple(f"v{p}" for p in parents)))
    structure = Structure(tuple(variables[i] for i in rng.permutation(n_variables)))
    shapes = [structure.family_shape(i) for i in range(n_variables)]
    weights = [rng.gamma(0.5, size=shape) * (rng.random(shape) > 0.1) for shape in shapes]
    return Network(structure, tuple(normalised(w) for w in weights))
