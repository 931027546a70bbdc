"""The system entropy source: every byte as it comes, exact reads, nothing kept over a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from qserver.errors import MeasurementError
from worker.noise.randomness import WORD_BITS, SystemEntropy

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


def test_words_are_the_bytes_as_they_come_so_uniform_bytes_make_uniform_words() -> None:
    """Eight bytes make a word, one to one: there is no bias at all."""
    entropy = SystemEntropy(bytes_from(iter(range(256)), []))
    found = entropy.words(32).tolist()
    assert b"".join(word.to_bytes(WORD_BITS // 8, "little") for word in found) == bytes(range(256))


def test_a_draw_reads_just_its_own_bytes() -> None:
    """Nothing is read ahead, so nothing is left to be copied by a fork."""
    taken: list[int] = []
    entropy = SystemEntropy(bytes_from(iter([0] * 200), taken))
    for n in (0, 1, 2, 20):
        assert len(entropy.words(n)) == n
    assert taken == [0, 8, 16, 160]


@pytest.mark.parametrize("n", [-1, True, 2.0, float("inf"), "2", None, Fraction(2)])
def test_words_refuse_a_number_that_is_none(n: object) -> None:
    with pytest.raises(MeasurementError) as caught:
        SystemEntropy().words(n)  # type: ignore[arg-type]
    assert "`n` must be an int >= 0" in str(caught.value.__cause__)


FORKED_DRAWS = """
import os
from worker.noise.randomness import SystemEntropy

entropy = SystemEntropy()
entropy.words(2)
for _ in range(3):
    if os.fork() == 0:
        os.write(1, entropy.words(2).tobytes().hex().encode() + b"\\n")
        os._exit(0)
for _ in range(3):
    os.wait()
os.write(1, entropy.words(2).tobytes().hex().encode() + b"\\n")
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
