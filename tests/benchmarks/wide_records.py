"""Records of many attributes as codes: Adult in bins, the sample of the alarm network."""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qserver.cli.local.demo import adult_csv
from qserver.models.marginals.graph.layout import FloatArray, Scope

ALARM = Path(__file__).parents[1] / "data" / "networks" / "alarm-10k.csv.gz"
# Numeric attributes of Adult by the lower ends of their bins; the others by their labels.
ADULT_BINS = {
    "age": (17, 25, 30, 35, 40, 45, 50, 60),
    "capital-gain": (0, 1, 5_000, 10_000),
    "capital-loss": (0, 1, 1_800, 2_000),
    "hours-per-week": (0, 20, 35, 40, 41, 50, 60),
}
ADULT_LEFT_OUT = ("fnlwgt", "education-num")
_COMMON_COUNTRIES = ("United-States", "Mexico", "?", "Philippines", "Germany")


@dataclass(frozen=True)
class Records:
    """Codes of every record, shape (n, attributes), and the number of values per attribute."""

    codes: npt.NDArray[np.intp]
    sizes: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.codes)

    @cached_property
    def _known(self) -> dict[Scope, FloatArray]:
        return {}

    def counts(self, scope: Scope) -> FloatArray:
        """True counts of a marginal, flat, row-major."""
        if scope not in self._known:
            shape = tuple(self.sizes[a] for a in scope)
            cell = np.ravel_multi_index(tuple(self.codes[:, a] for a in scope), shape)
            self._known[scope] = np.bincount(cell, minlength=int(np.prod(shape))).astype(float)
        return self._known[scope]


@cache
def adult_records() -> Records:
    """32,561 records of 13 attributes, up to 16 values each."""
    with gzip.open(adult_csv(), mode="rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    names = [name for name in rows[0] if name not in ADULT_LEFT_OUT]
    return coded([[_adult_value(name, row[name]) for row in rows] for name in names])


@cache
def alarm_records() -> Records:
    """10,000 records of 37 attributes, two to four values each."""
    with gzip.open(ALARM, mode="rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    return coded([[row[i] for row in rows[1:]] for i in range(len(rows[0]))])


def _adult_value(name: str, text: str) -> str:
    if name in ADULT_BINS:
        return f"{bisect_right(ADULT_BINS[name], int(text)):02d}"
    if name == "native-country":
        return text if text in _COMMON_COUNTRIES else "other"
    return text


def coded(columns: Sequence[Sequence[str]]) -> Records:
    """Records of these columns of labels."""
    found = [np.unique(column, return_inverse=True) for column in columns]
    codes = np.stack([inverse.ravel() for _, inverse in found], axis=1)
    return Records(codes.astype(np.intp), tuple(len(values) for values, _ in found))
