"""Requirements so far, for a base to serve.

A requirement is kept as the energies of its query and its target half-width. The variance that
meets it depends on how many Laplace variables make up the error, so it is calibrated: `z` is the
ratio of half-width to standard deviation, between 1.96 or so and ln(1/delta) / sqrt 2 at 0.95.
Gaussian noise has 1.96.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import floor, log2, sqrt

from scipy.special import ndtri

from qserver.inference.rows.shortest_interval import least_half_width, safe_half_width
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, Pattern
from qserver.planning.blocks.base import Target
from qserver.planning.constants import PLANNER


@dataclass(eq=False)
class Want:
    """One requirement on one query.

    Args:
        pattern: of the query's row.
        half_width: target in records of the row.
        confidence: 1 - delta.
        octave: class of precision: floor of log2(z / half-width); larger is tighter.
        stretch: half-width of its error over that of a normal error of the same variance, when
            last computed; above `at_least_stretch` and up to ln(1/delta) / (sqrt 2 z).
    """

    pattern: Pattern
    half_width: float
    confidence: float
    octave: int
    stretch: float = 1.0

    @classmethod
    def of(cls, pattern: Pattern, *, half_width: float, confidence: float) -> Want:
        """The requirement on this row."""
        octave = octave_of(half_width=half_width, confidence=confidence)
        return cls(pattern, half_width, confidence, octave)

    @property
    def energies(self) -> Mapping[BlockKey, float]:
        """Of the query's row."""
        return self.pattern.energies

    @property
    def target(self) -> Target:
        """The variance that meets the half-width, by its stretch."""
        tau = (self.half_width / (self.stretch * normal_z(self.confidence))) ** 2
        return Target(self.pattern.energies, tau)

    def to_depth(self, depth: int, *, share: float) -> Want:
        """The requirement on the query's coarser components, with this share of its variance."""
        half_width = self.half_width * sqrt(share)
        return replace(self, pattern=self.pattern.to_depth(depth), half_width=half_width)

    def at_least_stretch(self) -> Want:
        """The requirement at a stretch below that on any blocks."""
        stretch = least_half_width(1.0, self.confidence) / normal_z(self.confidence)
        return replace(self, stretch=stretch)

    def calibrate(self, blocks: Blocks) -> float:
        """Set the stretch to its value on these blocks; return the factor by which it changed."""
        if blocks.n_cells > PLANNER.most_values:
            return 1.0
        spread = sqrt(blocks.variance(self.pattern)) * normal_z(self.confidence)
        before, scales = self.stretch, blocks.scales(self.pattern).expanded
        self.stretch = safe_half_width(scales, self.confidence, blocks.law) / spread
        return self.stretch / before


@dataclass
class Wants:
    """The binding requirements: none implies another.

    They are public, a function of the questions.
    """

    wants: list[Want] = field(default_factory=list)

    def copy(self) -> Wants:
        """A copy."""
        return Wants([replace(w) for w in self.wants])

    def add(self, want: Want) -> None:
        """Take in a requirement, unless another one implies it."""
        support = want.pattern.support
        supports = {old.pattern.support for old in self.wants}
        above, below = {s for s in supports if s >= support}, {s for s in supports if s <= support}
        if any(w.pattern.support in above and _implies(w, want) for w in self.wants):
            return
        self.wants = [
            w for w in self.wants if w.pattern.support not in below or not _implies(want, w)
        ]
        self.wants.append(want)

    def up_to(self, octave: int) -> list[Want]:
        """Requirements no tighter than this class."""
        return [w for w in self.wants if w.octave <= octave]

    def forget(self, dropped: Sequence[Want]) -> None:
        """Drop these."""
        gone = {id(w) for w in dropped}
        self.wants = [w for w in self.wants if id(w) not in gone]


def octave_of(*, half_width: float, confidence: float) -> int:
    """The class of precision of a requirement: larger is tighter, by a factor of 2."""
    return floor(log2(normal_z(confidence) / half_width) + PLANNER.rounding)


@lru_cache
def normal_z(confidence: float) -> float:
    """Half-width at `confidence` of a normal error of variance 1."""
    return float(ndtri(0.5 + confidence / 2.0))


def _implies(one: Want, other: Want) -> bool:
    """Whether meeting the first one means meeting the second, on any blocks with its components.

    A requirement of a tighter class implies none of a looser one, whose base is fitted without it.
    """
    if one.octave > other.octave or one.confidence < other.confidence:
        return False
    mine, others = one.energies, other.energies
    most = (other.half_width / one.half_width) ** 2 * (1.0 + PLANNER.rounding)
    return all(e <= most * mine[j] for j, e in others.items())
