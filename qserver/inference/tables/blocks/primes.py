"""Secret random primes of 26 bits."""

from __future__ import annotations

from typing import Protocol

PRIME_BITS = 26
_WITNESSES = (2, 3, 5, 7)


class SecretRandom(Protocol):
    """A source of secret random integers; `random.SystemRandom` is one."""

    def randrange(self, start: int, stop: int) -> int:
        """A uniform integer in [start, stop)."""


def random_prime(entropy: SecretRandom) -> int:
    """A uniform prime in (2^25, 2^26)."""
    while True:
        candidate = entropy.randrange(1 << (PRIME_BITS - 1), 1 << PRIME_BITS) | 1
        if _is_prime(candidate):
            return candidate


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test; with these witnesses it is exact below 3.2 * 10^9."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, n)
        if power in (1, n - 1):
            continue
        if not any((power := power * power % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True
