"""What is printed about a query: its posterior, and what law that is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qserver.inference.posterior.given import GivenPosterior
from qserver.inference.posterior.posterior import Posterior
from qserver.records.statement import Statement

AnyPosterior = Posterior | GivenPosterior


@dataclass(frozen=True)
class Stated:
    """A posterior with what must be said of it."""

    posterior: AnyPosterior
    statement: Statement

    def scaled(self, multiplier: Fraction) -> Stated:
        """The same of `multiplier` times the query."""
        return Stated(self.posterior.scaled(multiplier), self.statement)
