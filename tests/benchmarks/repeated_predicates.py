"""Questions on a domain of Adult's shape with predicates that analysts repeat.

Bands of ages, part time and full time, groups of degrees, of work, of marital status: every
predicate returns beside others. No data is needed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from qserver.query.linear import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, indicator, interval

from .streams import ADULT_SIZES, Asked

LENGTHS = (100.0, 200.0, 400.0)
CONFIDENCE = 0.95
_AGE, _WORK, _EDUCATION, _MARITAL, _OCCUPATION, _SEX, _HOURS, _INCOME = 0, 1, 2, 3, 4, 7, 8, 10
# Ages from 17: under 30, then bands of ten years, and two wider ones. Weekly hours from 1.
_RANGES: Mapping[int, Sequence[tuple[int, int]]] = {
    _AGE: ((0, 13), (13, 23), (23, 33), (33, 43), (43, 74), (0, 33), (48, 74)),
    _HOURS: ((0, 34), (0, 40), (40, 99), (49, 99)),
    _SEX: ((0, 1), (1, 2)),
    _INCOME: ((0, 1), (1, 2)),
}
_GROUPS: Mapping[int, Sequence[tuple[int, ...]]] = {
    _WORK: ((0,), (1, 2), (3, 4, 5)),
    _EDUCATION: ((3, 5, 6, 7, 10, 11, 13, 15), (4,), (1, 8, 9), (0,), (2, 12, 14), (0, 2, 12, 14)),
    _MARITAL: ((0, 6), (1, 3, 4, 5), (2,)),
    _OCCUPATION: ((3, 4, 9), (0, 2, 6, 7, 8), (1, 5, 10, 11)),
}


ATTRIBUTES = tuple(sorted({*_RANGES, *_GROUPS}))
FEW = (_AGE, _EDUCATION, _SEX, _HOURS)


def pool() -> dict[int, list[Weights]]:
    """The predicates, per attribute."""
    found = {a: [interval(ADULT_SIZES[a], *r) for r in rs] for a, rs in _RANGES.items()}
    for axis, groups in _GROUPS.items():
        found[axis] = [indicator(ADULT_SIZES[axis], g) for g in groups]
    return found


def repeated_predicates(
    seed: int, *, n: int, attributes: Sequence[int] = ATTRIBUTES
) -> Iterator[Asked]:
    """One to three of the attributes, each with one of its predicates, all equally likely."""
    generator = random.Random(seed)
    predicates = {a: p for a, p in pool().items() if a in attributes}
    for _ in range(n):
        axes = generator.sample(sorted(predicates), generator.randint(1, 3))
        chosen = {a: generator.choice(predicates[a]) for a in axes}
        requirement = Requirement(generator.choice(LENGTHS), CONFIDENCE)
        yield Asked(primitive(linear_query(ADULT_SIZES, [(1, chosen)])), requirement)
