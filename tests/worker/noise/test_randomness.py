"""The system entropy source: exact uniformity, exact reads, nothing kept over a fork."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from qserver.errors import MeasurementError
from worker.noise.randomness import SystemEntropy

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "noise comes from the operating system alone, never from a seeded source",
    ),
]


def bytes_from(values: Iterator[int], taken: list[int]) -> Callable[[int], bytes]:
    """A reader of given bytes that notes how many were asked for each time."""

    def read(n_bytes: int) -> bytes:
        taken.append(n_bytes)
        return bytes(next(values) for _ in range(n_bytes))

    return read


def draws_until_empty(entropy: SystemEntropy, n: int) -> Counter[int]:
    """How often each value came before the given bytes ran out."""
    counts: Counter[int] = Counter()
    with contextlib.suppress(RuntimeError):  # what a generator makes of the end of its input
        while True:
            counts[entropy.uniform_below(n)] += 1
    return counts


@pytest.mark.parametrize("n", [2, 3, 5, 7, 10, 16, 100, 128, 129, 200, 255, 256])
def test_every_value_below_n_comes_from_equally_many_bytes(n: int) -> None:
    """Fed every byte once, each value below n appears equally often: there is no bias at all."""
    entropy = SystemEntropy(bytes_from(iter(range(256)), []))
    counts = draws_until_empty(entropy, n)
    assert set(counts) == set(range(n))
    assert set(counts.values()) == {256 >> (n - 1).bit_length()}


def test_two_byte_draws_are_uniform_as_well() -> None:
    """Fed every pair of bytes once, each value below 1000 appears 2^16 / 2^10 times."""
    pairs = (byte for high in range(256) for low in range(256) for byte in (high, low))
    entropy = SystemEntropy(bytes_from(pairs, []))
    counts = draws_until_empty(entropy, 1000)
    assert set(counts) == set(range(1000))
    assert set(counts.values()) == {64}


def test_one_value_needs_no_entropy() -> None:
    taken: list[int] = []
    assert SystemEntropy(bytes_from(iter(()), taken)).uniform_below(1) == 0
    assert sum(taken) == 0


def test_a_draw_reads_just_its_own_bytes() -> None:
    """Nothing is read ahead, so nothing is left to be copied by a fork."""
    taken: list[int] = []
    entropy = SystemEntropy(bytes_from(iter([0] * 40), taken))
    for n in (2, 256, 257, 2**64, 2**64 + 1):
        entropy.uniform_below(n)
    assert taken == [1, 1, 2, 8, 9]


def test_bernoulli_is_true_for_exactly_its_share_of_bytes() -> None:
    entropy = SystemEntropy(bytes_from(iter(range(256)), []))
    outcomes = [entropy.bernoulli(Fraction(85, 256)) for _ in range(256)]
    assert sum(outcomes) == 85


def test_bernoulli_of_zero_and_one_is_certain() -> None:
    entropy = SystemEntropy()
    assert not any(entropy.bernoulli(Fraction(0)) for _ in range(50))
    assert all(entropy.bernoulli(Fraction(1)) for _ in range(50))


@pytest.mark.parametrize("n", [0, -1, True, 2.0, float("inf"), "2", None, Fraction(2)])
def test_uniform_below_refuses_what_is_no_positive_int(n: object) -> None:
    with pytest.raises(MeasurementError) as caught:
        SystemEntropy().uniform_below(n)  # type: ignore[arg-type]
    assert "`n` must be an int >= 1" in str(caught.value.__cause__)


@pytest.mark.parametrize("p", [Fraction(-1, 9), Fraction(10, 9), 0.5, 1, True, float("nan"), None])
def test_bernoulli_refuses_what_is_no_fraction_in_the_unit_interval(p: object) -> None:
    with pytest.raises(MeasurementError) as caught:
        SystemEntropy().bernoulli(p)  # type: ignore[arg-type]
    assert "`p` must be a Fraction in [0, 1]" in str(caught.value.__cause__)


FORKED_DRAWS = """
import os
from worker.noise.randomness import SystemEntropy

entropy = SystemEntropy()
entropy.uniform_below(2**128)
for _ in range(3):
    if os.fork() == 0:
        os.write(1, b"%d\\n" % entropy.uniform_below(2**128))
        os._exit(0)
for _ in range(3):
    os.wait()
os.write(1, b"%d\\n" % entropy.uniform_below(2**128))
"""


def test_forked_processes_draw_different_values() -> None:
    """Three children and their parent, forked from one used source, share no draw."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", FORKED_DRAWS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    drawn = result.stdout.split()
    assert len(drawn) == 4
    assert len(set(drawn)) == 4
