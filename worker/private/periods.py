"""Dates and timestamps of private files into periods: SQL that cannot fail, and codes.

The SQL gives for each record the index of the label that its text names, or else the day that the
text names. A timestamp with a zone counts by its day in UTC, so the same moment is in the same
period in every notation; without one it counts by its day as written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qserver.query.domain import Attribute

# Days stand above every index of a label, and days before this era still do.
_DAYS, _LEAST_DAY = 1 << 32, 1 << 31
_FROM_YEAR_1 = 719_163  # `date.toordinal` of 1970-01-01
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:[.,][0-9]{1,9})?)?"
_ZONE = "(?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
_TIMESTAMP = f"{_DATE}(?:[T ]{_CLOCK}(?: ?(?:Z|[+-]{_ZONE}))?)?"
_MINUTES_A_DAY = 24 * 60


def period_sql(attribute: Attribute, text: str, i: int, *, outside: int) -> str:
    """SQL for the code of a label or for a day; `outside` for all other texts.

    Args:
        text: SQL for the text of the column, which is not null.
        i: the number of the attribute, whose labels are the enumeration `e{i}`.
    """
    label = f"CAST(enum_code(TRY_CAST({text} AS e{i})) AS BIGINT)"
    if attribute.periods is None:
        return f"coalesce({label}, {outside})"
    # To look a text up that is no label takes DuckDB 15 microseconds, to match it a tenth of one.
    is_date = f"regexp_full_match({text}, '{_TIMESTAMP}')"
    return f"coalesce(CASE WHEN {is_date} THEN {_day_sql(text)} ELSE {label} END, {outside})"


def period_codes(
    attribute: Attribute, raw: NDArray[np.int64], *, outside: int
) -> NDArray[np.int64]:
    """Codes from what `period_sql` gave; its negative values stay."""
    codes = raw.astype(np.int64)
    if attribute.periods is None:
        return codes
    is_day = codes > _LEAST_DAY
    days = codes[is_day] - _DAYS
    found = np.searchsorted(attribute.periods.edges, days, side="right").astype(np.int64) - 1
    found[(found < 0) | (found >= attribute.size)] = outside
    codes[is_day] = found
    return codes


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
