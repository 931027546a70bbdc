"""Errors of a plan's answers on many draws of its noise.

Estimates are linear in what was released. The engine answers on as many draws as numbers are
released, which gives the linear map, and on `N_CHECKED` more, which the map must foretell. All
other draws go through the map alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.testing import assert_allclose

from qserver.inference.arrays import FloatArray
from qserver.records.history import TableMeasurement
from tests.benchmarks.synthetic_noise import Snapshot

N_CHECKED = 20


def errors_by_draw(
    draws: Sequence[Snapshot], errors_of: Callable[[Snapshot], Sequence[float]]
) -> FloatArray:
    """One row of errors for each snapshot: all were released by one plan, from other noise."""
    released = np.array([_released(snapshot) for snapshot in draws])
    n_fitted = released.shape[1]
    assert n_fitted + N_CHECKED < len(draws)
    answered = np.array([errors_of(snapshot) for snapshot in draws[: n_fitted + N_CHECKED]])
    linear_map, *_ = np.linalg.lstsq(released[:n_fitted], answered[:n_fitted])
    errors = released @ linear_map
    assert_allclose(errors[n_fitted : len(answered)], answered[n_fitted:], rtol=1e-6, atol=1e-6)
    return np.asarray(errors)


def _released(snapshot: Snapshot) -> FloatArray:
    """All released numbers, in the order of their measurements."""
    return np.concatenate(
        [
            m.values.ravel() if isinstance(m, TableMeasurement) else [m.value_float]
            for m in snapshot.live
        ]
    )
