"""Noisy marginals of one small table, and what they ask for by cells of a layout."""

from __future__ import annotations

import numpy as np

from qserver.models.marginals.fit.observations import NoisyMarginal

SIZES = (2, 3, 2, 3)
TOTAL = 200.0
SCOPES = [(0, 1, 2), (1, 2, 3), (0, 3), (2, 3)]
SCALES = {(0, 1, 2): 8.0, (1, 2, 3): 10.0, (0, 3): 4.0, (2, 3): 20.0}


def released(scopes, *, seed=3, scales=SCALES):
    """Noisy marginals of a skewed table of all cells, a scale per marginal."""
    rng = np.random.default_rng(seed)
    cells = rng.multinomial(int(TOTAL), rng.dirichlet(np.full(int(np.prod(SIZES)), 0.3)))
    full = cells.reshape(SIZES).astype(float)
    found = []
    for scope in scopes:
        truth = full.sum(axis=tuple(a for a in range(len(SIZES)) if a not in scope)).ravel()
        noise = rng.laplace(scale=scales[scope], size=truth.shape)
        found.append(NoisyMarginal(scope, truth + noise, np.array(scales[scope])))
    return found


def dense_targets(layout, measurements):
    """Answers over the total and squared relative precisions, by the layout's cells."""
    least = min(m.scales.min() for m in measurements)
    target, weight = np.zeros(layout.n_cells), np.zeros(layout.n_cells)
    for m in measurements:
        cells = slice(*layout.offsets[layout.index[m.scope] :][:2])
        target[cells], weight[cells] = m.answers / TOTAL, (least / m.scales) ** 2
    return target, weight
