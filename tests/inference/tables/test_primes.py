"""Secret primes, and the modulus that nobody can foresee."""

from __future__ import annotations

import random

from qserver.inference.tables.blocks.primes import PRIME_BITS, random_prime


def test_random_primes_are_primes_of_26_bits_and_differ():
    primes = [random_prime(random.Random(seed)) for seed in range(40)]
    for p in primes:
        assert p.bit_length() == PRIME_BITS
        assert all(p % d for d in range(2, int(p**0.5) + 1))
    assert len(set(primes)) > 35
