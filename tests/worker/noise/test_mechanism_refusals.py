"""What the mechanism refuses, and that a refusal shows nothing and draws nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType

import pytest

from qserver.errors import MeasurementError
from qserver.ledger import noise_step as lattice
from worker.noise import geometric, mechanism, randomness
from worker.noise.mechanism import discrete_laplace, refine, release, release_refined
from worker.noise.randomness import SystemEntropy

BAD_EXACT = [0.5, 1.0, float("nan"), float("inf"), True, "1", None]
BAD_POSITIVE = [*BAD_EXACT, 0, -1, Fraction(0), Fraction(-1, 2)]
BAD_ALPHA = [*BAD_EXACT, 0, -1, Fraction(1)]


def refused(call: Callable[[], object]) -> str:
    """The refusal's internal cause; its public text must be the constant one."""
    with pytest.raises(MeasurementError) as caught:
        call()
    assert str(caught.value) == str(MeasurementError())
    return str(caught.value.__cause__)


@pytest.mark.parametrize("step", BAD_POSITIVE)
def test_release_refuses_a_step_that_is_no_positive_exact_number(step: object) -> None:
    def call() -> object:
        return release([1], step=step, alpha_nano=1, entropy=SystemEntropy())  # type: ignore[arg-type]

    assert "`step` must be" in refused(call)


@pytest.mark.parametrize("alpha_nano", BAD_ALPHA)
def test_release_refuses_an_alpha_that_is_no_positive_int(alpha_nano: object) -> None:
    def call() -> object:
        return release([1], step=1, alpha_nano=alpha_nano, entropy=SystemEntropy())  # type: ignore[arg-type]

    assert "`alpha_nano` must be an int > 0" in refused(call)


@pytest.mark.parametrize("truth", BAD_EXACT)
def test_release_refuses_a_truth_that_is_no_exact_number(truth: object) -> None:
    def call() -> object:
        return release([0, truth], step=1, alpha_nano=1, entropy=SystemEntropy())  # type: ignore[list-item]

    assert "`truths` must be ints or Fractions" in refused(call)


def test_release_refuses_a_truth_off_the_lattice_and_does_not_show_it() -> None:
    """Its answer would carry the truth's residue without noise."""

    def call() -> object:
        return release([2, 987654321], step=2, alpha_nano=1, entropy=SystemEntropy())

    cause = refused(call)
    assert "`truths` must be multiples of `step`" in cause
    assert "987654321" not in cause


def test_a_refused_release_draws_nothing() -> None:
    def read(n_bytes: int) -> bytes:
        raise AssertionError(n_bytes)

    entropy = SystemEntropy(read)
    assert refused(lambda: release([Fraction(1, 2)], step=1, alpha_nano=1, entropy=entropy))
    assert refused(lambda: release([1], step=1, alpha_nano=0, entropy=entropy))


@pytest.mark.parametrize("new_alpha_nano", [1, 4, 5])
def test_refinement_refuses_an_alpha_that_does_not_rise(new_alpha_nano: int) -> None:
    def call() -> object:
        return refine(
            [0, 0],
            old_alphas_nano=[1, 5],
            new_alpha_nano=new_alpha_nano,
            step=1,
            entropy=SystemEntropy(),
        )

    assert "`new_alpha_nano` must exceed all `old_alphas_nano`" in refused(call)


@pytest.mark.parametrize("index", [0.0, True, None, Fraction(1)])
def test_refinement_refuses_an_index_that_is_no_int(index: object) -> None:
    def noise() -> object:
        return refine(
            [0, index],  # type: ignore[list-item]
            old_alphas_nano=[1, 1],
            new_alpha_nano=2,
            step=1,
            entropy=SystemEntropy(),
        )

    def released() -> object:
        return release_refined(
            [0, 0],
            released=[0, index],  # type: ignore[list-item]
            step=1,
            old_alphas_nano=[1, 1],
            new_alpha_nano=2,
            entropy=SystemEntropy(),
        )

    assert "`noise` must be ints" in refused(noise)
    assert "`released` must be ints" in refused(released)


@pytest.mark.parametrize("rate", BAD_POSITIVE)
def test_noise_refuses_a_rate_that_is_no_positive_exact_number(rate: object) -> None:
    assert "must be" in refused(lambda: discrete_laplace(rate, 1, SystemEntropy()))  # type: ignore[arg-type]


WHOLE = {
    *("uint64", "int64", "bool_", "arange", "zeros", "array", "frombuffer", "fromiter"),
    *("where", "minimum", "maximum", "count_nonzero", "flatnonzero"),
}
"""What of numpy is used where noise is drawn: types and functions that make no float of ints."""


@pytest.mark.parametrize("module", [mechanism, geometric, randomness, lattice])
def test_nothing_that_touches_truth_or_noise_can_make_a_float(module: ModuleType) -> None:
    """No float literal, no float(), no float library, in the source itself."""
    tree = ast.parse(inspect.getsource(module))
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
    }
    assert not [value for value in constants if isinstance(value, float)]
    assert names.isdisjoint({"float", "numpy", "random", "secrets"})
    assert used <= WHOLE


def test_numpy_divides_nothing_where_noise_is_drawn() -> None:
    tree = ast.parse(inspect.getsource(geometric))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Div)]
