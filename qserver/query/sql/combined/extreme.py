"""What counts say of the least or the greatest value: one that some record surely reaches.

For a threshold v let D(v) be the number of values up to v. With a the least value D(a) >= 1, and
D(a - 1) = 0, where a - 1 is the threshold before a. The interval goes from the least v at which the
upper end of D(v) is at least 1 to the greatest v at which the lower end of D(v - 1) is at most 0.
It misses a only if the upper end of D(a) or the lower end of D(a - 1) is wrong, so it holds with
the confidence of the intervals of the D(v), one by one. Up to its upper end some record surely
lies, and that is the value that is given. Whether one lies below it no count with noise can tell:
so the interval nearly always begins where the public range does. The greatest value is the same
from the other end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.asking.marks import Marks
from qserver.query.sql.combined.function import Combination, Fitted, KnownPart, Order, Smooth
from qserver.query.sql.combined.quantile import bracket, even_stops

_STATED_COUNT = Fraction(100)


@dataclass(frozen=True)
class Extreme:
    """The least value by the counts D at thresholds, or the greatest by those from the other end.

    Args:
        is_greatest: whether the thresholds fall.
        firsts, lasts: per threshold the first and the last value since the threshold before, from
            the end that is sought.
    """

    is_greatest: bool
    firsts: tuple[Fraction, ...]
    lasts: tuple[Fraction, ...]

    has_steps = False
    has_base = False
    smooth: Smooth | None = None
    order: Order | None = None

    @property
    def marks(self) -> tuple[Marks, ...]:
        """Whether there is no record, or one."""
        return (Marks(0.0, 1.0),) * len(self.firsts)

    @property
    def stated_half_width(self) -> Fraction:
        """That of a count: WITHIN is about the counts."""
        return _STATED_COUNT

    def part_confidence(self, confidence: float) -> float:
        """That of the value: only two of the intervals can make it miss, each at one end."""
        return confidence

    def widths(self, half_width: float, _base: float, /) -> tuple[float, ...]:
        """The half-width that is asked, for each count."""
        return (half_width,) * len(self.firsts)

    def records(self, parts: Sequence[KnownPart]) -> KnownPart:
        """The last count."""
        return parts[-1]

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value that some record surely reaches; None where it is not sure that there is one.

        The interval holds the least or greatest value itself.
        """
        places = bracket(parts, reached=1.0, not_yet=0.0)
        ends = float(self.firsts[places.first]), float(self.lasts[places.last])
        estimate = ends[1] if parts[-1].low > 0.0 else None
        return Combination(estimate, min(ends), max(ends))

    def fitted(self, most: int, /) -> Fitted | None:
        """With fewer thresholds, as even as can be; the last one stays."""
        stops = even_stops(len(self.firsts), most)
        firsts = (self.firsts[i] for i in (0, *stops[:-1]))
        lasts = (self.lasts[i - 1] for i in stops)
        function = Extreme(self.is_greatest, tuple(firsts), tuple(lasts))
        return Fitted(tuple(i - 1 for i in stops), function)
