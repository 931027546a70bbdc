"""What the mechanism refuses, and that a refusal shows nothing and draws nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType

import pytest

from qserver.errors import MeasurementError
from qserver.records import noise_step as lattice
from worker.noise import mechanism, randomness
from worker.noise.mechanism import discrete_laplace, geometric, refine, release, release_refined
from worker.noise.randomness import Entropy, SystemEntropy

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
    def call() -> int:
        return release(1, step=step, alpha_nano=1, entropy=SystemEntropy())  # type: ignore[arg-type]

    assert "`step` must be" in refused(call)


@pytest.mark.parametrize("alpha_nano", BAD_ALPHA)
def test_release_refuses_an_alpha_that_is_no_positive_int(alpha_nano: object) -> None:
    def call() -> int:
        return release(1, step=1, alpha_nano=alpha_nano, entropy=SystemEntropy())  # type: ignore[arg-type]

    assert "`alpha_nano` must be an int > 0" in refused(call)


@pytest.mark.parametrize("truth", BAD_EXACT)
def test_release_refuses_a_truth_that_is_no_exact_number(truth: object) -> None:
    def call() -> int:
        return release(truth, step=1, alpha_nano=1, entropy=SystemEntropy())  # type: ignore[arg-type]

    assert "`truth` must be an int or a Fraction" in refused(call)


def test_release_refuses_a_truth_off_the_lattice_and_does_not_show_it() -> None:
    """Its answer would carry the truth's residue without noise."""

    def call() -> int:
        return release(987654321, step=2, alpha_nano=1, entropy=SystemEntropy())

    cause = refused(call)
    assert "`truth` must be a multiple of `step`" in cause
    assert "987654321" not in cause


def test_a_refused_release_draws_nothing() -> None:
    def read(n_bytes: int) -> bytes:
        raise AssertionError(n_bytes)

    entropy = SystemEntropy(read)
    assert refused(lambda: release(Fraction(1, 2), step=1, alpha_nano=1, entropy=entropy))
    assert refused(lambda: release(1, step=1, alpha_nano=0, entropy=entropy))


@pytest.mark.parametrize("new_alpha_nano", [1, 4, 5])
def test_refinement_refuses_an_alpha_that_does_not_rise(new_alpha_nano: int) -> None:
    def call() -> int:
        return refine(
            0,
            old_alpha_nano=5,
            new_alpha_nano=new_alpha_nano,
            step=1,
            entropy=SystemEntropy(),
        )

    assert "`new_alpha_nano` must exceed `old_alpha_nano`" in refused(call)


@pytest.mark.parametrize("index", [0.0, True, None, Fraction(1)])
def test_refinement_refuses_an_index_that_is_no_int(index: object) -> None:
    def noise() -> int:
        return refine(
            index,  # type: ignore[arg-type]
            old_alpha_nano=1,
            new_alpha_nano=2,
            step=1,
            entropy=SystemEntropy(),
        )

    def released() -> int:
        return release_refined(
            0,
            released_index=index,  # type: ignore[arg-type]
            step=1,
            old_alpha_nano=1,
            new_alpha_nano=2,
            entropy=SystemEntropy(),
        )

    assert "`noise_index` must be an int" in refused(noise)
    assert "`released_index` must be an int" in refused(released)


@pytest.mark.parametrize("sampler", [geometric, discrete_laplace])
@pytest.mark.parametrize("rate", BAD_POSITIVE)
def test_samplers_refuse_a_rate_that_is_no_positive_exact_number(
    sampler: Callable[[object, Entropy], int], rate: object
) -> None:
    assert "must be" in refused(lambda: sampler(rate, SystemEntropy()))


@pytest.mark.parametrize("module", [mechanism, randomness, lattice])
def test_nothing_that_touches_truth_or_noise_can_make_a_float(module: ModuleType) -> None:
    """No float literal, no float(), no float library, in the source itself."""
    tree = ast.parse(inspect.getsource(module))
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not [value for value in constants if isinstance(value, float)]
    assert names.isdisjoint({"float", "numpy", "np", "random", "secrets"})
