"""A sum asked in steps, on noise drawn as the worker draws it, without a server."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


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
