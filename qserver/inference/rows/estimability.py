"""The exact test of estimability: is a query in the row space of the history?

Floats cannot tell a total of 10^12 cells from the same total without one cell. Residues modulo a
prime can. Prime and functionals are secret, so nobody can construct a query that fools the test.

Error. Let r rows and the query mention d attributes. If the query is not in the row space, then
modulo the prime it is not either unless the prime divides one certain non-zero integer minor of
the matrix of rows and query. Such a minor has at most m bits (m <= r log2(r) / 2 for 0/1 rows),
hence at most m / 25 prime factors among the 1.9 million primes between 2^25 and 2^26. Otherwise
the residual of the query is a non-zero vector, and a random product functional vanishes on it
with probability at most d / 2^25 (Schwartz 1980, Zippel 1979), twenty of them with its twentieth
power. Two independent primes: at most (m / 25 / 1.9e6)^2 + tiny, that is 1e-8 for 1,000 dense
0/1 rows and 4e-7 for 5,000; in practice minors are small and it is far less. The other way round
a query in the row space always passes.
"""

from __future__ import annotations

from collections.abc import Callable

from qserver.inference.rows.echelon import Echelon, UnluckyPrimeError
from qserver.inference.rows.factored_rows import FactoredRows
from qserver.inference.rows.modular import SecretRandom
from qserver.inference.rows.rational import RationalWeights
from qserver.query.linear import LinearQuery

N_PRIMES = 2
_MAX_PRIMES = 16


class SpanTest:
    """Whether queries lie in the span of a growing list of independent rows.

    All work waits for the first question; each question then processes only the new rows.

    Args:
        sizes: number of values per attribute.
        entropy: where the secret primes come from.
    """

    def __init__(self, sizes: tuple[int, ...], entropy: SecretRandom) -> None:
        self._sizes = sizes
        self._entropy = entropy
        self._echelons = [Echelon(sizes, entropy) for _ in range(N_PRIMES)]

    def contains(self, rows: FactoredRows, query: LinearQuery) -> bool:
        """Whether `query` is in the span of `rows`; may wrongly say yes, as stated above."""

        def question(echelon: Echelon) -> bool:
            echelon.extend(rows)
            return echelon.contains(query)

        return all(self._ask(i, question) for i in range(N_PRIMES))

    def confirms(self, rows: FactoredRows, query: LinearQuery, claim: RationalWeights) -> bool:
        """Whether `query` is exactly the claimed combination of `rows`; same error."""

        def question(echelon: Echelon) -> bool:
            return echelon.confirms(rows, query, claim)

        return all(self._ask(i, question) for i in range(N_PRIMES))

    def refresh(self) -> None:
        """Draw new primes."""
        self._echelons = [Echelon(self._sizes, self._entropy) for _ in range(N_PRIMES)]

    def _ask(self, i: int, question: Callable[[Echelon], bool]) -> bool:
        for _ in range(_MAX_PRIMES):
            try:
                return question(self._echelons[i])
            except UnluckyPrimeError:
                self._echelons[i] = Echelon(self._sizes, self._entropy)
        # Rows that are dependent modulo every prime are dependent and must not be used.
        return False
