"""The public cap on the number of records of a dataset."""

from __future__ import annotations

from typing import Final

MOST_RECORDS: Final = 10**10
"""Most records that a dataset may have if its owner declares no capacity."""
