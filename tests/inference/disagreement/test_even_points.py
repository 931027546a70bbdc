"""The points of a lattice that is doubled, and the generator of all its sizes."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.inference.disagreement.mixture import GENERATOR, SIZES, even_points


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_lattice_is_the_one_of_half_its_size_and_the_added_points(size: int) -> None:
    whole, half = even_points(size, 5), even_points(size // 2, 5)
    added = even_points(size, 5, added=True)
    both = np.concatenate([half, added], axis=1)
    assert both.shape == whole.shape
    for found, expected in zip(both, whole, strict=True):
        order, of_whole = (np.argsort(points[:, 0]) for points in (found, expected))
        assert np.allclose(found[order], expected[of_whole], atol=1e-12)


@pytest.mark.slow
def test_the_generator_is_the_best_one_for_all_sizes_together() -> None:
    merits = np.array([_merits(generator) for generator in range(3, SIZES[-1] // 2, 2)])
    worst = (merits / merits.min(axis=0)).max(axis=1)
    chosen = (GENERATOR - 3) // 2
    assert worst[chosen] == pytest.approx(worst.min(), rel=1e-6)
    assert worst[chosen] < 1.18


def _merits(generator: int) -> list[float]:
    """P_2 of each size, with weight 1 / j^2 for the j-th of 30 axes."""
    most = SIZES[-1]
    powers = np.array([pow(generator, i, most) for i in range(30)])
    x = (np.arange(most)[:, None] * powers % most) / most
    weights = 1.0 / np.arange(1, 31) ** 2
    products = np.prod(1.0 + weights * 2.0 * np.pi**2 * (x * x - x + 1.0 / 6.0), axis=1)
    return [float(products[:: most // size].mean() - 1.0) for size in SIZES]
