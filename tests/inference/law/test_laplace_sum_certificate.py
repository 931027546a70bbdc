"""The certificate bounds errors that are really there, and its parts bound what they claim."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.law import contour
from qserver.inference.law.contour import ContourLaw, tail_error
from qserver.inference.law.hyperbola import Hyperbola, Nodes, Quadrature, SaddleGrid
from qserver.inference.law.moment_function import ComplexArray, Moments

SCALES = {
    "pair": np.array([1.0, 0.3]),
    "spread": np.geomspace(1e-6, 1.0, 9),
    "equal": np.ones(40),
    "dominated": np.append(np.full(300, 0.05), 1.0),
    "many": np.linspace(0.01, 1.0, 400),
}


def coarse_nodes(moments: Moments, half_width: float, *, coarser: float, n_cut: int) -> Nodes:
    """Nodes at a step `coarser` times too long, the last `n_cut` left out."""
    hyperbola = Hyperbola.through(SaddleGrid.of(moments).crossing(half_width))
    rule = Quadrature.choose(moments, hyperbola, half_width, narrow=coarser)
    nodes = Nodes.build(moments, rule, half_width=half_width, power=0)
    keep = max(3, len(nodes.points) - n_cut)
    return Nodes(
        nodes.anchor,
        nodes.offsets[:keep],
        nodes.points[:keep],
        nodes.one_minus_squares[:keep],
        nodes.log_weights[:keep],
        rule,
    )


def real_error(law: ContourLaw, nodes: Nodes, half_width: float) -> float:
    exact = 0.5 * math.exp(law.log_tail(half_width))
    sums = nodes.sums(half_width)
    return abs(math.exp(sums.log_unit) * sums.tail - exact)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("height", [0.3, 1.5, 6.0])
@pytest.mark.parametrize("coarser", [1.5, 2.5, 4.0])
def test_certificate_covers_the_error_of_a_step_that_is_too_long(
    name: str, height: float, coarser: float
) -> None:
    law = ContourLaw.of(SCALES[name])
    h = height * law.deviation
    nodes = coarse_nodes(law.moments, h, coarser=coarser, n_cut=0)
    error = real_error(law, nodes, h)
    assert error <= tail_error(law.moments, nodes, h)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("n_cut", [4, 10, 16])
def test_certificate_covers_the_error_of_missing_nodes(name: str, n_cut: int) -> None:
    law = ContourLaw.of(SCALES[name])
    h = 1.2 * law.deviation
    nodes = coarse_nodes(law.moments, h, coarser=1.0, n_cut=n_cut)
    assert real_error(law, nodes, h) <= tail_error(law.moments, nodes, h)


def test_coarse_steps_really_are_wrong() -> None:
    """The control: the errors covered above are far beyond rounding."""
    law = ContourLaw.of(SCALES["pair"])
    h = 1.5 * law.deviation
    nodes = coarse_nodes(law.moments, h, coarser=4.0, n_cut=0)
    assert real_error(law, nodes, h) > 1e-8
    assert tail_error(law.moments, nodes, h) < 1.0


@pytest.mark.parametrize("name", SCALES)
def test_moments_match_the_product_in_many_digits(name: str) -> None:
    scales = SCALES[name]
    points: ComplexArray = np.array([0.4 + 0.1j, 0.65 + 0.1j, 0.9 + 0.02j, 0.2 + 1.5j, 3.0 + 2.0j])
    moments = Moments.of(scales)
    for point in points:
        squares: ComplexArray = np.array([point * point])
        value = moments.log(squares, np.subtract(1.0, squares))[0]
        with mpmath.workdps(60):
            square = mpmath.mpc(complex(point)) ** 2
            product = mpmath.mpf(1)
            for c in scales:
                product *= 1 - (mpmath.mpf(float(c)) / float(scales.max())) ** 2 * square
            log_abs = float(-mpmath.log(abs(product)))
            phase = complex(-product / abs(product) * mpmath.exp(1j * float(value.imag)))
        assert_allclose(value.real, log_abs, rtol=1e-13, atol=1e-13)
        assert abs(phase + 1.0) < 1e-11


def test_small_factor_bound_covers_every_point_of_a_cell() -> None:
    """Both kinds of cells: A^2 < B away from the real axis, A^2 > B astride it."""
    moments = Moments.of(np.append(np.full(200, 0.1), [1.0] * 32))
    generator = np.random.default_rng(5)
    for centre in (0.9 + 0.05j, 0.6 + 0.8j, 1.1 + 0.0j, 0.1 + 1.0j):
        z = (centre + 0.1 * (generator.random(200) + 1j * generator.random(200))) ** 2
        cells = contour._CellBounds(
            real=np.array([z.real.max()]), norm=np.array([np.abs(z).min() ** 2]), n_chunks=1
        )
        bound = contour._small_log(moments, cells)[0]
        exact = -(np.log(np.abs(1.0 - moments.squares[32:, None] * z))).sum(axis=0)
        assert exact.max() <= bound <= exact.max() + 1.5


@pytest.mark.parametrize("angle", [0.15, 0.6, 1.3])
def test_side_bounds_cover_every_point_of_the_side(angle: float) -> None:
    scales = np.append(np.linspace(0.3, 1.0, 30), np.full(100, 0.02))
    moments = Moments.of(scales)
    hyperbola = Hyperbola.through(SaddleGrid.of(moments).crossing(9.0))
    h, reach = 9.0, 4.0
    u = np.linspace(-reach, reach, 40_001)
    s = hyperbola.centre + hyperbola.rho * np.cosh(u + 1j * angle)
    speed = np.abs(hyperbola.rho * np.sinh(u + 1j * angle))
    logs = -np.log(np.abs(1.0 - moments.squares[:, None] * s**2)).sum(axis=0) - h * s.real
    area = np.trapezoid(np.exp(logs) * speed / np.abs(s), u)
    bound = contour._log_side(moments, hyperbola, h, angle=angle, reach=reach)
    assert math.log(area) <= bound <= math.log(area) + 3.0


def test_cap_bounds_cover_every_point_of_the_cap() -> None:
    for name, scales in SCALES.items():
        law = ContourLaw.of(scales)
        h = 1.5 * law.deviation
        nodes = coarse_nodes(law.moments, h, coarser=1.0, n_cut=8)
        rule = nodes.quadrature
        v = np.linspace(-rule.inner, rule.outer, 4001)
        w = nodes.reach + 1j * (rule.hyperbola.beta + v)
        s = rule.hyperbola.centre + rule.hyperbola.rho * np.cosh(w)
        logs = -np.log(np.abs(1.0 - law.moments.squares[:, None] * s**2)).sum(axis=0)
        logs += np.log(np.abs(rule.hyperbola.rho * np.sinh(w) / s)) - h * s.real
        logs -= np.logaddexp(0.0, 2.0 * math.pi / rule.step * np.abs(v))
        area = 2.0 * np.trapezoid(np.exp(logs), v)
        bound = contour._cap(law.moments, nodes, h)
        assert area <= bound, name
        beyond = contour._truncation(law.moments, nodes, h)
        assert tail_error(law.moments, nodes, h) >= bound / (2.0 * math.pi) + beyond, name
        assert bound <= 1e4 * area, name


@pytest.mark.parametrize("angle", [0.15, 0.6, 1.3])
def test_large_factor_bounds_close_in_on_the_exact_factors(angle: float) -> None:
    """On very short cells both bounds are the factors themselves."""
    moments = Moments.of(np.linspace(0.3, 1.0, 32))
    hyperbola = Hyperbola.through(SaddleGrid.of(moments).crossing(9.0))

    def exact(w: np.ndarray) -> np.ndarray:
        s = hyperbola.centre + hyperbola.rho * np.cosh(w)
        return -np.log(np.abs(1.0 - moments.squares[:, None] * s**2)).sum(axis=0)

    u = np.linspace(0.0, 3.0, 30_001)
    side = contour._large_log_on_side(moments, 1, hyperbola, angle, np.cosh(u))
    middle = exact(0.5 * (u[1:] + u[:-1]) + 1j * angle)
    assert_allclose(side, middle, rtol=0, atol=1e-2)
    v = np.linspace(angle - 0.1, angle + 0.1, 4001)
    edge = hyperbola.centre + hyperbola.rho * np.cosh(2.0 + 1j * v)
    squares, norms = (edge**2).real[:-1], np.abs(edge[1:]) ** 4
    cells = contour._CellBounds(real=squares, norm=norms, n_chunks=1)
    cap = contour._large_log_on_cap(moments, cells, hyperbola, math.cosh(2.0), np.cos(v))
    assert_allclose(cap, exact(2.0 + 0.5j * (v[1:] + v[:-1])), rtol=0, atol=1e-2)
