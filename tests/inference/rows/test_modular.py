"""Arithmetic modulo a prime on floats, against Python's integers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from qserver.inference.rows.modular import PRIME_BITS, PrimeField, random_prime

LARGEST_PRIME = 67_108_859
"""The largest prime below 2^26: the worst case for exactness."""

FIELD = PrimeField(LARGEST_PRIME)


@given(st.integers(-(2**52), 2**52))
@settings(max_examples=300)
def test_residues_of_whole_floats_are_those_of_the_integers(value):
    assert int(FIELD.reduce(np.array([float(value)]))[0]) == value % LARGEST_PRIME


@pytest.mark.parametrize("multiple", [1, 2, 12_345, LARGEST_PRIME, LARGEST_PRIME + 1])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_residues_next_to_multiples_of_the_prime_are_exact(multiple, offset):
    value = multiple * LARGEST_PRIME + offset
    assert int(FIELD.reduce(np.array([float(value)]))[0]) == value % LARGEST_PRIME


@pytest.mark.parametrize(("n", "m", "k"), [(3, 8192, 2), (2, 8193, 5), (1, 20_000, 3), (40, 7, 9)])
def test_matrix_products_are_exact_for_the_largest_residues(n, m, k):
    rng = np.random.default_rng(1)
    left = rng.integers(LARGEST_PRIME - 50, LARGEST_PRIME, (n, m))
    right = rng.integers(LARGEST_PRIME - 50, LARGEST_PRIME, (m, k))
    expected = (left.astype(object) @ right.astype(object)) % LARGEST_PRIME
    found = FIELD.matmul(left.astype(np.float64), right.astype(np.float64))
    assert np.array_equal(found.astype(np.int64), expected.astype(np.int64))


@pytest.mark.parametrize("largest", [1, 1 << 40])
def test_sparse_products_are_exact_for_small_and_for_large_entries(largest):
    rng = np.random.default_rng(2)
    left = rng.integers(-largest, largest + 1, (20, 30)) * (rng.random((20, 30)) < 0.4)
    left[:, 0] = 1
    right = rng.integers(0, LARGEST_PRIME, (30, 4))
    expected = (left.astype(object) @ right.astype(object)) % LARGEST_PRIME
    found = FIELD.sparse_matmul(csr_array(left.astype(np.float64)), right.astype(np.float64))
    assert np.array_equal(found.astype(np.int64), expected.astype(np.int64))


def test_an_inverse_times_its_matrix_is_the_identity():
    matrix = np.random.default_rng(3).integers(0, LARGEST_PRIME, (64, 64)).astype(np.float64)
    product = FIELD.matmul(FIELD.inverse(matrix), matrix)
    assert np.array_equal(product, np.eye(64))


def test_a_singular_matrix_has_no_inverse():
    with pytest.raises(ZeroDivisionError):
        FIELD.inverse(np.array([[1.0, 2.0], [2.0, 4.0]]))


def test_a_fraction_has_the_residue_that_its_denominator_takes_back():
    assert int(FIELD.residue(22, 7)) * 7 % LARGEST_PRIME == 22
    with pytest.raises(ValueError, match="not invertible"):
        FIELD.residue(1, LARGEST_PRIME)


def test_random_primes_are_primes_of_26_bits_and_differ():
    primes = [random_prime(random.Random(seed)) for seed in range(40)]
    for p in primes:
        assert p.bit_length() == PRIME_BITS
        assert all(p % d for d in range(2, int(p**0.5) + 1))
    assert len(set(primes)) > 35
