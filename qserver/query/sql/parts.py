"""How exact both parts of a quotient must be, by what is known of the quotient already.

The interval of a quotient t = N / D has about the half-width h(t) / D, where h(t) is that of the
error of N - t D. Both D and t are private. So a statement is answered in steps: first both parts
roughly, then as exactly as is needed whatever D and t are by what is known of them, and in the end
as exactly as is needed in the worst case that is left. A rough answer is refined into a fine one
for the difference, so that the steps together cost what the last one costs.

The law of an error is taken to be that of one Laplace variable per part. What is measured may have
another: then a step falls short, and another follows. No interval rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_FIRST = 16.0
"""The first step asks for intervals so many times as long as may be needed in the end."""
_FIRST_ERROR = 1 / 4
"""But that D is known to so much of its least: lengths that follow errors closely choose them."""
_AIM = 0.98
"""Part of the asked width that is aimed at: the search for an interval rounds it outward."""
_SURPLUS = 1.1
"""A worst case that is worse than the best by no more than this is provided for at once."""
_STEP = 0.8
"""A step between makes the interval of a part at most so long, or it is left out."""
_SHORTER = 0.93
"""So long is what is asked where a step fell short."""
_LEAST_SHARE = 1 / 64
_N_HALVINGS = 50


@dataclass(frozen=True)
class Halves:
    """Half-widths of numerator and denominator, each at the confidence of parts."""

    over: float
    under: float

    @property
    def is_finite(self) -> bool:
        """Whether something is known of both."""
        return math.isfinite(self.over) and math.isfinite(self.under)

    def least(self, other: Halves) -> Halves:
        """The lesser of both, part by part."""
        return Halves(min(self.over, other.over), min(self.under, other.under))

    def most(self, other: Halves) -> Halves:
        """The greater of both, part by part."""
        return Halves(max(self.over, other.over), max(self.under, other.under))

    def scaled(self, factor: float) -> Halves:
        """`factor` times both."""
        return Halves(factor * self.over, factor * self.under)

    def suffices(self, other: Halves) -> bool:
        """Whether no part is longer than of `other`."""
        return self.over <= other.over and self.under <= other.under


@dataclass(frozen=True)
class KnownRange:
    """Where a number lies, as far as is known; ends may be infinite."""

    low: float
    high: float

    @property
    def nearest(self) -> float:
        """The least size that it may have."""
        return max(0.0, self.low, -self.high)

    @property
    def farthest(self) -> float:
        """The greatest size that it may have."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class ErrorLaw:
    """The half-width of the error of N - t D, from the half-widths of N and D.

    Args:
        confidence: of the quotient's interval.
        part_confidence: of the parts' intervals; by the union bound both hold with `confidence`.
        is_joint: whether by the law of both errors together, else by the union bound.
    """

    confidence: float
    part_confidence: float
    is_joint: bool

    def half_width(self, halves: Halves, t: float) -> float:
        """That of N - t D at `confidence`."""
        a, b = halves.over, abs(t) * halves.under
        if not self.is_joint:
            return a + b
        return _last(lambda h: not self.fits(halves, t, h), a + b)

    def fits(self, halves: Halves, t: float, room: float) -> bool:
        """Whether the half-width of N - t D is at most `room`."""
        a, b = halves.over, abs(t) * halves.under
        if not self.is_joint:
            return a + b <= room
        unit = -math.log1p(-self.part_confidence)
        return _tail(a / unit, b / unit, room) <= 1.0 - self.confidence

    def halves(self, room: float, *, t: float, radius: float) -> Halves:
        """Half-widths that cost about the least where `half_width` at `t` may be `room`.

        Args:
            radius: what a record weighs at most in the numerator, where 1 in the denominator.
        """
        # A part costs its weight over its scale: by Lagrange for the least variance, or sum.
        share = min(max(abs(t) / radius, _LEAST_SHARE), 1.0)
        ratio = share ** (1.0 / 3.0) if self.is_joint else math.sqrt(share)
        size = room / self.half_width(Halves(1.0, ratio), 1.0)
        return Halves(size, size * ratio / (share * radius))

    def beside(self, wanted: Halves, known: Halves, *, room: float, t: float) -> Halves:
        """`wanted`, where one part is known better already: the other then has more room."""
        if known.under < wanted.under:
            over = _last(lambda x: self.fits(Halves(x, known.under), t, room), self._reach(room))
            return Halves(max(wanted.over, over), known.under)
        if known.over < wanted.over and t:
            far = self._reach(room) / abs(t)
            under = _last(lambda x: self.fits(Halves(known.over, x), t, room), far)
            return Halves(known.over, max(wanted.under, under))
        return wanted

    def _reach(self, room: float) -> float:
        """More than a part alone may have."""
        return room * math.log1p(-self.part_confidence) / math.log1p(-self.confidence)


@dataclass(frozen=True)
class KnownQuotient:
    """What history says of a quotient t = N / D.

    Args:
        halves: of the parts; infinite where nothing is known.
        denominator: where D lies.
        t: where the quotient lies.
        half_width: of the quotient's own interval, infinite where it has none.
        is_joint: whether that is by the joint law, as far as can be told.
    """

    halves: Halves = Halves(math.inf, math.inf)
    denominator: KnownRange = KnownRange(-math.inf, math.inf)
    t: KnownRange = KnownRange(-math.inf, math.inf)
    half_width: float = math.inf
    is_joint: bool = True


@dataclass(frozen=True)
class QuotientTarget:
    """A quotient that is asked to within +-width.

    Args:
        base: what D has at least: as assumed, or as known at first where that is more.
        radius: bound on t, or a guess of it.
        most: half-widths that suffice in every case that was possible at first, by the union
            bound; shorter ones are never asked for.
    """

    width: float
    base: float
    radius: float
    confidence: float
    part_confidence: float
    most: Halves

    @classmethod
    def of(
        cls,
        known: KnownQuotient,
        *,
        width: float,
        base: float,
        radius: float,
        confidence: float,
        part_confidence: float,
    ) -> QuotientTarget:
        """What is asked of a quotient of which this is known at first."""
        base = max(base, known.denominator.low)
        union = ErrorLaw(confidence, part_confidence, is_joint=False)
        far = min(known.t.farthest, radius)
        most = union.halves(width * base, t=far, radius=radius)
        return cls(width, base, radius, confidence, part_confidence, most)

    def is_met(self, known: KnownQuotient) -> bool:
        """Whether the interval is short enough as it is, so that nothing is asked."""
        return known.halves.is_finite and (known.half_width <= self.width or self.is_enough(known))

    def is_enough(self, known: KnownQuotient) -> bool:
        """Whether the interval is short enough wherever D and t may lie, if D is `base` at least.

        Steps end by this alone. Where the interval itself comes to lie, near a public bound or
        not, shall have no part in it: an end that is chosen by errors is missed more often.
        """
        if not known.halves.is_finite:
            return False
        if known.halves.suffices(self.most):
            return True
        room, far = self.width * self._denominator(known).low, known.t.farthest
        return math.isfinite(far) and self._law(known).fits(known.halves, far, room)

    def next_step(self, known: KnownQuotient) -> Halves:
        """The half-widths to ask for now, some shorter than known unless it is met."""
        found, denominator = known.halves, self._denominator(known)
        if not math.isfinite(denominator.high):
            return self.most.scaled(self._first)
        far = min(known.t.farthest, self.radius)
        room = _AIM * self.width * denominator.low
        least = self._halves(known, _AIM * self.width * denominator.high, known.t.nearest)
        after = least.least(found)
        is_step = not found.scaled(_STEP).suffices(after)
        if is_step and not self._law(known).fits(after, far, _SURPLUS * room):
            return least.most(self.most)
        last = self._halves(known, room, far)
        if found.scaled(_SHORTER).suffices(last):
            last = last.least(self._shorter(found))
        return last.most(self.most)

    def _shorter(self, found: Halves) -> Halves:
        """Of one part a little less than was found: of the numerator while that may help."""
        if found.over > self.most.over:
            return Halves(found.over * _SHORTER, math.inf)
        return Halves(math.inf, found.under * _SHORTER)

    @property
    def _first(self) -> float:
        most = _FIRST_ERROR * self.base / self.most.under if self.most.under else math.inf
        return max(1.0, min(_FIRST, most))

    def _law(self, known: KnownQuotient) -> ErrorLaw:
        return ErrorLaw(self.confidence, self.part_confidence, known.is_joint)

    def _halves(self, known: KnownQuotient, room: float, t: float) -> Halves:
        law = self._law(known)
        wanted = law.halves(room, t=t, radius=self.radius)
        return law.beside(wanted, known.halves, room=room, t=t)

    def _denominator(self, known: KnownQuotient) -> KnownRange:
        """Where D lies if it is `base` at least."""
        return KnownRange(
            max(self.base, known.denominator.low), max(self.base, known.denominator.high)
        )


def _last(holds: Callable[[float], bool], most: float) -> float:
    """About the greatest number up to `most` at which a falling condition holds."""
    low, high = 0.0, most
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail(a: float, b: float, h: float) -> float:
    """P(abs(W) > h) for W the sum of Laplace variables of scales a and b, about."""
    a, b = max(a, b), min(a, b)
    if a == 0.0:
        return 0.0
    # Nearer to one another the difference below would be lost in rounding.
    if a - b < 1e-6 * a:
        return (1.0 + h / (2.0 * a)) * math.exp(-h / a)
    rest = b * b * math.exp(-h / b) if b else 0.0
    return (a * a * math.exp(-h / a) - rest) / (a * a - b * b)
