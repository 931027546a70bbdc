"""A group of records whose sums are measured by the worker's own noise, without a server."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from qserver.inference.engine import InferenceEngine
from qserver.query.domain import Domain
from qserver.query.linear import total_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.records.charge import Relation
from qserver.records.history import Measurement
from worker.noise.mechanism import release, release_refined
from worker.noise.randomness import SystemEntropy

STEP = Fraction(1, 1 << 12)
_OTHERS = 500


class Measured:
    """What history says of a group as its sums are measured and refined.

    Args:
        records: the codes of each of its records.
        relation: under replace-one the number of all records is public.
        rng: of the noise.
    """

    def __init__(
        self,
        domain: Domain,
        records: Sequence[tuple[int, ...]],
        relation: Relation,
        rng: random.Random,
    ) -> None:
        self.engine = InferenceEngine(domain.sizes)
        self._records = Counter(records)
        self._entropy = SystemEntropy(rng.randbytes)
        self._rows = dict[str, Measurement]()
        if relation == "replace-one":
            row, n = primitive(total_query(domain.sizes)), len(records) + _OTHERS
            self._take("", Measurement(0, row.row, row.key, 0, Fraction(1), n))

    def measure(self, question: Question) -> None:
        """Measure the question's row so exactly, where it is not known so."""
        row = question.row
        half = question.roomy_half_width / (1.0 + 1e-3)
        alpha = math.ceil(-1e9 * math.log1p(-question.confidence) / half)
        old = self._rows.get(row.key)
        if old is not None and old.alpha_nano >= alpha:
            return
        step = STEP / row.row.denominator
        truth = sum((n * row.row.value_at(r) for r, n in self._records.items()), Fraction(0))
        if old is None:
            drawn = release(truth, step=step, alpha_nano=alpha, entropy=self._entropy)
        else:
            drawn = release_refined(
                truth,
                released_index=old.index,
                step=step,
                old_alpha_nano=old.alpha_nano,
                new_alpha_nano=alpha,
                entropy=self._entropy,
            )
        number = len(self._rows) if old is None else old.id
        self._take(row.key, Measurement(number, row.row, row.key, alpha, step, drawn))

    def _take(self, key: str, measured: Measurement) -> None:
        self._rows[key] = measured
        self.engine.extend([measured])
