"""Quotients asked in steps, on noise drawn as the worker draws it, without a server."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from qserver.query.sql.parts import Halves, KnownQuotient, KnownRange, QuotientTarget


def refined(rng: random.Random, noise: float, old: float, new: float) -> float:
    """Noise of a new, smaller scale given that of the old one, as a refinement draws it.

    It stays, crosses to the other side, goes beyond, or ends between 0 and the old noise.
    """
    e1, e2, a = 1.0 / old, 1.0 / new, abs(noise)
    sign = math.copysign(1.0, noise)
    stays = e1 / e2 * math.exp(-(e2 - e1) * a)
    across = (e2 - e1) / (2.0 * e2)
    beyond = across * math.exp(-(e2 - e1) * a)
    draw = rng.random()
    if draw < stays:
        return noise
    if draw < stays + across:
        return -sign * rng.expovariate(e1 + e2)
    if draw < stays + across + beyond:
        return sign * (a + rng.expovariate(e1 + e2))
    rate = e2 - e1
    return -sign * math.log1p(-rng.random() * -math.expm1(-rate * a)) / rate


@dataclass
class Part:
    """A sum of which noisy values are released, each refining the last."""

    truth: float
    unit: float
    scale: float = math.inf
    noise: float = 0.0

    def ask(self, half: float, rng: random.Random) -> None:
        """Measure to +-half at the confidence that `unit` stands for, where that is not known."""
        scale = half / self.unit
        if scale >= self.scale:
            return
        if math.isinf(self.scale):
            self.noise = rng.expovariate(1.0 / scale) * rng.choice((-1, 1))
        else:
            self.noise = refined(rng, self.noise, self.scale, scale)
        self.scale = scale

    @property
    def estimate(self) -> float:
        """The released value."""
        return self.truth + self.noise

    @property
    def half(self) -> float:
        """Its half-width."""
        return self.scale * self.unit


@dataclass(frozen=True)
class Outcome:
    """How a quotient was answered.

    Args:
        half_width: of its interval.
        held: whether that holds the truth.
        n_steps: how often it was measured.
        loss: what the parts cost, in epsilon; quoted: what was said before to be the most.
    """

    half_width: float
    held: bool
    n_steps: int
    loss: float
    quoted: float


@dataclass(frozen=True)
class Case:
    """A quotient t = N / D, its middle set aside, asked to within +-width.

    Args:
        radius: bound on the size of t; base: what D is assumed to have at least.
    """

    denominator: float
    t: float
    radius: float
    width: float
    base: float
    confidence: float

    def answered(self, rng: random.Random) -> Outcome:
        """One run of all steps."""
        part_confidence = (1.0 + self.confidence) / 2.0
        unit = -math.log1p(-part_confidence)
        over, under = Part(self.t * self.denominator, unit), Part(self.denominator, unit)
        asking = QuotientTarget.of(
            KnownQuotient(),
            width=self.width,
            base=self.base,
            radius=self.radius,
            confidence=self.confidence,
            part_confidence=part_confidence,
        )
        known, n_steps = KnownQuotient(), 0
        while not asking.is_enough(known):
            step = asking.next_step(known)
            over.ask(step.over, rng)
            under.ask(step.under, rng)
            known, n_steps = self._known(over, under), n_steps + 1
        error = abs(over.noise - self.t * under.noise)
        h = half_width(over.scale, abs(self.t) * under.scale, 1.0 - self.confidence)
        loss = self.radius / over.scale + 1.0 / under.scale
        quoted = unit * (self.radius / asking.most.over + 1.0 / asking.most.under)
        return Outcome(known.half_width, error <= h, n_steps, loss, quoted)

    def _known(self, over: Part, under: Part) -> KnownQuotient:
        halves, denominator = Halves(over.half, under.half), under.estimate
        around = KnownRange(denominator - under.half, denominator + under.half)
        if around.low <= 0.0:
            return KnownQuotient(halves, around, KnownRange(-self.radius, self.radius), self.radius)
        t = over.estimate / denominator
        half = half_width(over.scale, abs(t) * under.scale, 1.0 - self.confidence) / denominator
        ends = max(t - half, -self.radius), min(t + half, self.radius)
        low, high = ends if ends[0] < ends[1] else (-self.radius, self.radius)
        return KnownQuotient(halves, around, KnownRange(low, high), (high - low) / 2.0)


def half_width(a: float, b: float, delta: float) -> float:
    """h with P(abs(W) > h) = delta, W the sum of Laplace variables of scales a and b."""
    a, b = max(a, b), min(a, b)
    low, high = 0.0, (a + b) * (2.0 - math.log(delta)) * 2.0
    for _ in range(48):
        h = (low + high) / 2.0
        if a - b < 1e-5 * a:
            tail = (1.0 + h / (2.0 * a)) * math.exp(-h / a)
        else:
            fine = b * b * math.exp(-h / b) if b else 0.0
            tail = (a * a * math.exp(-h / a) - fine) / (a * a - b * b)
        low, high = (h, high) if tail > delta else (low, h)
    return high
