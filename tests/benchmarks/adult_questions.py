"""Mixed predicate questions on Adult: a stream for a ledger that runs full, and the real counts.

Six attributes, 115,200 cells, so that the ledger's maximum is exact: age in bands of ten years,
class of work, education, race, sex, weekly hours in bands of ten.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from math import exp, log

import numpy as np
import numpy.typing as npt

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import ScaledWeights, Weights, indicator, interval

from .streams import Asked

ATTRIBUTES = ("age", "workclass", "education", "race", "sex", "hours-per-week")
SIZES = (8, 9, 16, 5, 2, 10)
ORDERED = frozenset({0, 2, 5})
LEAST_LENGTH, MOST_LENGTH = 20.0, 2_000.0
CONFIDENCES = (0.8, 0.9, 0.95, 0.99, 0.999)
MOST_ATTRIBUTES = 3
_FIRST_BAND = {0: 1, 5: 0}


def mixed_predicates(seed: int, *, n: int) -> Iterator[Asked]:
    """Independent questions that know of no planner and no data.

    One, two or three attributes, equally likely, any as likely as another. On an ordered one (age,
    education, hours) a range, all proper ranges being equally likely; on another a set of values,
    its size uniform from 1 to all but one, then every set of that size equally likely. The length
    is log-uniform from 20 to 2,000 records, the confidence one of five, equally likely.
    """
    generator = random.Random(seed)
    for _ in range(n):
        axes = {
            axis: _predicate(generator, axis)
            for axis in generator.sample(range(len(SIZES)), generator.randint(1, MOST_ATTRIBUTES))
        }
        length = LEAST_LENGTH * exp(generator.random() * log(MOST_LENGTH / LEAST_LENGTH))
        requirement = Requirement(length, generator.choice(CONFIDENCES))
        yield Asked(primitive(linear_query(SIZES, [(1, axes)])), requirement)


def _predicate(generator: random.Random, axis: int) -> Weights | ScaledWeights:
    size = SIZES[axis]
    if axis not in ORDERED:
        chosen = generator.sample(range(size), generator.randint(1, size - 1))
        return indicator(size, chosen)
    low, high = 0, size
    while (low, high) == (0, size):
        low, high = sorted(generator.sample(range(size + 1), 2))
    return interval(size, low, high)


@cache
def adult_cells() -> npt.NDArray[np.int64]:
    """The real counts, shape `SIZES`: 32,561 records."""
    cells = np.zeros(SIZES, dtype=np.int64)
    codes = _codes()
    with gzip.open(adult_csv(), mode="rt", encoding="utf-8", newline="") as lines:
        for record in csv.DictReader(lines):
            cells[
                tuple(_code(axis, record[name], codes) for axis, name in enumerate(ATTRIBUTES))
            ] += 1
    return cells


def _codes() -> Mapping[str, Mapping[str, int]]:
    """Per attribute of labels, the code of each; the markers of a missing value come last."""
    document = json.loads(adult_domain().read_text(encoding="utf-8"))
    return {
        a["name"]: {label: i for i, label in enumerate([*a["labels"], *a["missing_markers"]])}
        for a in document["attributes"]
        if "labels" in a
    }


def _code(axis: int, text: str, codes: Mapping[str, Mapping[str, int]]) -> int:
    if axis in _FIRST_BAND:
        # Bands of ten; ages 17 to 19 are the first, 80 and more the last.
        return min(int(text) // 10 - _FIRST_BAND[axis], SIZES[axis] - 1)
    return codes[ATTRIBUTES[axis]][text]
