"""The periods that are wanted of a source that goes on holding others, as a table does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.query.domain import Domain
from worker.sources.source import Days


@dataclass(frozen=True)
class WantedPeriods:
    """The periods from `start` up to, not including, `stop`.

    Args:
        axis: position of the attribute of periods.
    """

    axis: int
    start: int
    stop: int

    def others(self, codes: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the records of other periods; one without a period is none of them."""
        return np.asarray((codes >= 0) & ((codes < self.start) | (codes >= self.stop)))

    def days(self, domain: Domain) -> Days | None:
        """Their days, with one more at each end for zones; None for periods without days."""
        attribute = domain.attributes[self.axis]
        if attribute.periods is None:
            return None
        edges = attribute.periods.edges
        ends = [int(edges[self.start]) - 1, int(edges[self.stop]) + 1]
        first, stop = (date.fromordinal(min(max(end, 1), date.max.toordinal())) for end in ends)
        return Days(attribute.source, first, stop)
