"""Random records of a model, drawn attribute by attribute, each given the earlier ones."""

from __future__ import annotations

import numpy as np

from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Scope


def draw_given(
    records: IndexArray,
    table: FloatArray,
    given: Scope,
    new: Scope,
    generator: np.random.Generator,
) -> None:
    """Draw the columns `new` of the records, given their columns `given`, in place.

    Of n records with equal values in `given`, each value of `new` gets n p, rounded up or down. So
    every record has it with probability p, and their counts are as near n p as rounding allows.

    Args:
        records: codes, shape (n, attributes).
        table: joint weights, with axes `given`, then `new`; rows without weight are uniform.
    """
    n_given = int(np.prod(table.shape[: len(given)]))
    flat = table.reshape(n_given, -1)
    totals = flat.sum(axis=1, keepdims=True)
    flat = np.where(totals > 0, flat, 1.0)
    steps = np.cumsum(flat / flat.sum(axis=1, keepdims=True), axis=1)
    steps[:, -1] = 1.0
    at = np.zeros(len(records), dtype=np.intp)
    for a, n in zip(given, table.shape, strict=False):
        at = at * n + records[:, a]
    uniforms = stratified(at, n_given, generator)
    # The steps of row i lie in (i, i + 1], so that one search serves all rows.
    ladder = (steps + np.arange(n_given)[:, None]).ravel()
    cell = np.searchsorted(ladder, at + uniforms, side="right") - at * flat.shape[1]
    cell = np.clip(cell, 0, flat.shape[1] - 1)
    codes = np.unravel_index(cell, table.shape[len(given) :])
    for a, column in zip(new, codes, strict=True):
        records[:, a] = column


def stratified(group: IndexArray, n_groups: int, generator: np.random.Generator) -> FloatArray:
    """A uniform number in [0, 1) per record; within a group they are evenly spaced, shuffled.

    References:
        Systematic sampling (Madow, 1949), within strata.
    """
    counts = np.bincount(group, minlength=n_groups)
    order = generator.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    first = np.repeat(np.cumsum(counts) - counts, counts)
    found = np.empty(len(group))
    found[order] = np.arange(len(group)) - first
    return (found + generator.random(n_groups)[group]) / counts[group]
