"""Kinds that look at a secret sample first, to decide how exactly each table is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from qserver.query.domain import Domain

if TYPE_CHECKING:
    from qserver.models.network.network import Table

SAMPLING_RATE = Fraction(1, 10)
"""The probability that a record is in the sample."""
SAMPLE_SHARE = Fraction(1, 10)
"""The part of the price for the sample."""


@dataclass(frozen=True)
class TwoStages:
    """The tables of both stages, known before any data is read.

    Args:
        first: attributes' positions of each table of the sample, ascending; all at one price.
        final: those of each table of all records, each once; without attributes of one value.
    """

    first: tuple[tuple[int, ...], ...]
    final: tuple[tuple[int, ...], ...]


@runtime_checkable
class SampledKind(Protocol):
    """A kind with models in two stages; pure and without state."""

    def stages(self, specification: str, domain: Domain) -> TwoStages | None:
        """The tables of both stages; None for a model of one stage."""

    def shares(
        self, specification: str, domain: Domain, noisy: Sequence[Table]
    ) -> tuple[float, ...]:
        """The share of stage two's price for each final table, by the noisy counts of the sample.

        Args:
            noisy: noisy counts of each first table, one axis per attribute, ascending.

        Returns:
            Shares >= 0 in the order of `final` that add up to 1.
        """


def divided_nano(total_nano: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Whole parts > 0 of `total_nano` near these shares, which never add up to more.

    Args:
        total_nano: at least as many as there are shares.
    """
    exact = [Fraction(max(share, 0.0)) for share in shares]
    whole = sum(exact) or Fraction(1)
    # Each part has one for certain; the rest is divided exactly and rounded down.
    rest = total_nano - len(shares)
    return tuple(1 + int(rest * share / whole) for share in exact)
