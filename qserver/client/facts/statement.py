"""What an interval or a probability of a reply is a statement of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qserver.client.reading import FromJson, at
from qserver.query.asking.prior import Prior
from qserver.query.asking.reading import reading_text
from qserver.text import law_text


def prior_of_reply(plain: Mapping[str, Any] | None) -> Prior | None:
    """The prior that a reply names; earlier servers name none."""
    return None if plain is None else Prior.from_plain(plain)


@dataclass(frozen=True)
class Statement(FromJson):
    """The law behind an interval.

    Args:
        law: `posterior`: given the released answers; `estimator`: of the estimate's error, whatever
            the released answers disagree about; `exact`: there is no noise.
        error: bound on the numerical error of a probability; the interval is widened by it.
        disagreements: known disagreements among released answers that are counted in.
        method: auto, convolution (with its `step`) or monte-carlo (with its `draws`).
        prior: what was held true beforehand, or None; what is said is then Bayesian, and no
            frequency.
    """

    law: str
    error: float
    disagreements: int
    method: str = "auto"
    step: float | None = None
    draws: int | None = None
    prior: Prior | None = field(default=None, metadata=at("prior", by=prior_of_reply))

    @property
    def reading(self) -> str:
        """How the posterior was read, as a phrase; '' for the exact law without a prior."""
        return reading_text(self.method, step=self.step, draws=self.draws, prior=self.prior)

    @property
    def law_said(self) -> str:
        """The law with its numerical error, as a phrase; '' where nothing disagrees."""
        return law_text(self.law, error=self.error, disagreements=self.disagreements)


class Probability(float):
    """A probability, as the number that it is, with what it is a statement of.

    Args:
        statement: the law behind it; None from an earlier server.
    """

    statement: Statement | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Probability:
        """The probability that the server's JSON holds."""
        found, told = cls(document["probability"]), document.get("statement")
        found.statement = None if told is None else Statement.of(told)
        return found
