"""How exact both parts of a quotient must be, given the known facts about the quotient.

The interval of a quotient t = N / D has about the half-width h(t) / D, where h(t) is the half-width
of the error of N - t D. Both D and t are private, so a statement is answered in steps. The first
step asks for both parts roughly. The next asks for the exactness that is needed in the best case of
the known D and t, and the last for that in the worst case. A rough answer is refined for the
difference in price, so all steps together cost as much as the last one.

The steps assume one Laplace variable per part for the error. The measured error may follow another
law: then a step falls short, and another follows. No interval depends on this assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_FIRST = 16.0
"""The first step asks for intervals at most this many times as long as the last."""
_FIRST_ERROR = 1 / 4
"""But D is asked for to at most this part of its least: else its errors choose later lengths."""
_AIM = 0.98
"""Part of the asked width to aim at: the search for an interval rounds it outward."""
_SURPLUS = 1.1
"""If the worst case needs at most this many times the best, the step serves it at once."""
_STEP = 0.8
"""A step between must shorten a part's interval to this part of its length, or is left out."""
_SHORTER = 0.93
"""The next length, as a part of the last one, after a step that fell short."""
_LEAST_SHARE = 1 / 64
_N_HALVINGS = 50


@dataclass(frozen=True)
class Halves:
    """Half-widths of numerator and denominator, each at the confidence of parts."""

    over: float
    under: float

    @property
    def is_finite(self) -> bool:
        """Whether both are known."""
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
        """Whether no part is longer than that of `other`."""
        return self.over <= other.over and self.under <= other.under


@dataclass(frozen=True)
class KnownRange:
    """The known range of a number; ends may be infinite."""

    low: float
    high: float

    @property
    def nearest(self) -> float:
        """The least possible absolute value."""
        return max(0.0, self.low, -self.high)

    @property
    def farthest(self) -> float:
        """The greatest possible absolute value."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class ErrorLaw:
    """The half-width of the error of N - t D, from the half-widths of N and D.

    Args:
        confidence: of the quotient's interval.
        part_confidence: of the parts' intervals; by the union bound both hold with `confidence`.
        is_joint: whether by the joint law of both errors, else by the union bound.
    """

    confidence: float
    part_confidence: float
    is_joint: bool

    def half_width(self, halves: Halves, t: float) -> float:
        """The half-width of N - t D at `confidence`."""
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
        """The half-widths of about the least price for which `half_width` at `t` is `room`.

        Args:
            radius: a record's greatest weight in the numerator, relative to the denominator's.
        """
        # A part costs its weight over its scale: least variance, or least sum, by Lagrange.
        share = min(max(abs(t) / radius, _LEAST_SHARE), 1.0)
        ratio = share ** (1.0 / 3.0) if self.is_joint else math.sqrt(share)
        size = room / self.half_width(Halves(1.0, ratio), 1.0)
        return Halves(size, size * ratio / (share * radius))

    def with_room(self, wanted: Halves, known: Halves, *, room: float, t: float) -> Halves:
        """`wanted`, with more room for one part if the other is known better already."""
        if known.under < wanted.under:
            over = _last(lambda x: self.fits(Halves(x, known.under), t, room), self._reach(room))
            return Halves(max(wanted.over, over), known.under)
        if known.over < wanted.over and t:
            far = self._reach(room) / abs(t)
            under = _last(lambda x: self.fits(Halves(known.over, x), t, room), far)
            return Halves(known.over, max(wanted.under, under))
        return wanted

    def _reach(self, room: float) -> float:
        """More than the half-width of one part alone may be."""
        return room * math.log1p(-self.part_confidence) / math.log1p(-self.confidence)


@dataclass(frozen=True)
class KnownQuotient:
    """The known facts about a quotient t = N / D from history.

    Args:
        halves: of the parts; infinite if nothing is known.
        denominator: the range of D.
        t: the range of the quotient.
        half_width: of the quotient's interval, infinite if it has none.
        is_joint: whether that follows from the joint law, as far as known.
    """

    halves: Halves = Halves(math.inf, math.inf)
    denominator: KnownRange = KnownRange(-math.inf, math.inf)
    t: KnownRange = KnownRange(-math.inf, math.inf)
    half_width: float = math.inf
    is_joint: bool = True


@dataclass(frozen=True)
class QuotientTarget:
    """The required exactness of a quotient: +-width.

    Args:
        base: the least D: as assumed, or more if more was known at first.
        radius: bound on t, or a guess of it.
        most: half-widths that suffice in every case that was possible at first, by the union
            bound; no step asks for shorter ones.
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
        """The target for a quotient with these facts known at first."""
        base = max(base, known.denominator.low)
        union = ErrorLaw(confidence, part_confidence, is_joint=False)
        far = min(known.t.farthest, radius)
        most = union.halves(width * base, t=far, radius=radius)
        return cls(width, base, radius, confidence, part_confidence, most)

    def is_met(self, known: KnownQuotient) -> bool:
        """Whether the interval is short enough already, so that no step is needed."""
        return known.halves.is_finite and (known.half_width <= self.width or self.is_enough(known))

    def is_enough(self, known: KnownQuotient) -> bool:
        """Whether the interval is short enough for all possible D and t, if D is at least `base`.

        Steps end by this rule alone. The place of the interval, near a public bound or not, has no
        influence: an end that the errors choose would be missed more often.
        """
        if not known.halves.is_finite:
            return False
        if known.halves.suffices(self.most):
            return True
        room, far = self.width * self._denominator(known).low, known.t.farthest
        return math.isfinite(far) and self._law(known).fits(known.halves, far, room)

    def next_step(self, known: KnownQuotient) -> Halves:
        """The half-widths to ask for now; one is shorter than known, unless the target is met."""
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
        """A little less than found, for one part: the numerator as long as that may help."""
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
        return law.with_room(wanted, known.halves, room=room, t=t)

    def _denominator(self, known: KnownQuotient) -> KnownRange:
        """The range of D if it is at least `base`."""
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
    # For nearly equal scales the difference below would be lost in rounding.
    if a - b < 1e-6 * a:
        return (1.0 + h / (2.0 * a)) * math.exp(-h / a)
    rest = b * b * math.exp(-h / b) if b else 0.0
    return (a * a * math.exp(-h / a) - rest) / (a * a - b * b)
