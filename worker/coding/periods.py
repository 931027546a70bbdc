"""Dates and timestamps of private files into periods: SQL that cannot fail, and codes.

The SQL gives for each record the day that its text names, if it names one. A timestamp with a zone
counts by its day in UTC, so the same moment is in the same period in every notation; without one it
counts by its day as written.

`WantedPeriods` are those that are wanted of a source that goes on holding others, as a table does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.query.domain import Attribute, Domain
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


# Days stand above 0, and days before this era still do.
_DAYS, _LEAST_DAY = 1 << 32, 1 << 31
_FROM_YEAR_1 = 719_163  # `date.toordinal` of 1970-01-01
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:[.,][0-9]{1,9})?)?"
_ZONE = "(?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
_TIMESTAMP = f"{_DATE}(?:[T ]{_CLOCK}(?: ?(?:Z|[+-]{_ZONE}))?)?"
_MINUTES_A_DAY = 24 * 60


def dashed_sql(text: str) -> str:
    """SQL for a text whose date is written 2024/03/01, as many tables do, with dashes."""
    return f"regexp_replace({text}, '^([0-9]{{4}})/([0-9]{{2}})/([0-9]{{2}})', '\\1-\\2-\\3')"


def day_sql(text: str, *, outside: int) -> str:
    """SQL for the day of a date or timestamp, and 0 for another text.

    Args:
        text: SQL for the text of the column, which may be null.
        outside: what a date is that no calendar has.
    """
    is_date = f"regexp_full_match(coalesce({text}, ''), '{_TIMESTAMP}')"
    return f"CASE WHEN {is_date} THEN coalesce({_day_sql(text)}, {outside}) ELSE 0 END"


def period_codes(
    attribute: Attribute,
    codes: NDArray[np.int64],
    days: NDArray[np.int64],
    *,
    missing: int,
    outside: int,
) -> NDArray[np.int64]:
    """Codes of dates and periods: a day has that of its bin, other texts keep theirs.

    Where `outside` is `clamp` a day beyond the bins has the nearest one, and what is no date or
    bin at all counts as missing.

    Args:
        codes: those of the texts as labels, or `missing`, which stays.
        days: what `day_sql` gave.
    """
    if attribute.periods is None:
        return codes
    found = np.searchsorted(attribute.periods.edges, days - _DAYS, side="right") - 1
    is_clamped = attribute.outside == "clamp"
    if is_clamped:
        found = np.clip(found, 0, attribute.n_regular - 1)
    found[(days < _LEAST_DAY) | (found < 0) | (found >= attribute.n_regular)] = outside
    found = np.where((days == 0) | (codes == missing), codes, found.astype(np.int64))
    if is_clamped:
        found[found == outside] = missing
    return found


def _day_sql(text: str) -> str:
    """The day in UTC of a timestamp, by `date.toordinal` and `_DAYS` more; NULL for none."""
    day = f"TRY_CAST(substr({text}, 1, 10) AS DATE) - DATE '1970-01-01' + {_FROM_YEAR_1 + _DAYS}"
    clock = f"{_minutes(text, 12)} * 60 + {_minutes(text, 15)}"
    zone = f"regexp_extract(substr({text}, 17), '([+-])([0-9]{{2}}):?([0-9]{{2}})?$', %d)"
    ahead = f"({_whole(zone % 2)} * 60 + {_whole(zone % 3)})"
    sign = f"CASE WHEN {zone % 1} = '-' THEN 1 ELSE -1 END"
    shift = f"CAST(floor(({clock} + {sign} * {ahead}) / {_MINUTES_A_DAY}.0) AS BIGINT)"
    return f"{day} + {shift}"


def _minutes(text: str, place: int) -> str:
    return _whole(f"substr({text}, {place}, 2)")


def _whole(text: str) -> str:
    return f"coalesce(TRY_CAST({text} AS BIGINT), 0)"
