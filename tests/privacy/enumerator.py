"""The enumerator: how well what a worker drew tells small worlds apart, against what is charged.

Only the counting is replaced: a worker's tables give, in place of a count, what each cell of the
domain adds to it. The draws made of it are noted: weights, lattice step, alpha, answer, and the
answer that each one goes on from. So the probability of all answers is known in every world of a
few people, up to a factor that all worlds share, and exactly: a draw's logarithm is a fraction.

A draw that goes on from an answer has the probability D'(j) Z(i - j) / D(i), i and j being the
noise before and after. The difference i - j is that of the two answers, whatever the truth is, so Z
is part of what worlds share. Nothing else of the proof is used, nor any figure of the ledger.

Under Gaussian noise no log-ratio is bounded. What draws tell is the sum of rho times the square of
what each truth moves by, and every truth must lie on its lattice.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import comb, lcm
from typing import Any
from unittest import mock

import mpmath
import numpy as np

from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from tests.ledger.people_by_definition import People, Person
from tests.query.small_queries import cells
from tests.worker.noise.one_by_one import each_new, each_refined
from worker.private.present_content import GrowingTable
from worker.spending import measure as measuring
from worker.spending.spend import Trusted

FAR = 40
"""An answer beyond the truth of every world here: what tells most."""
N_WORLDS = 12
"""Worlds of up to two others that a person joins."""
RATE = Fraction(1, 10)
"""Chance of a record to be in a secret sample."""
_BITS = 120
World = tuple[int, ...]
"""The number of records of each cell."""


@dataclass(frozen=True)
class Truth:
    """What a count is in every world: what a record of each cell adds to it.

    Args:
        sample: the secret sample that is counted; None for all records.
    """

    snapshot: str
    weights: tuple[Fraction, ...]
    sample: int | None = None


@dataclass(frozen=True)
class Draw:
    """One draw.

    Args:
        before: answer and alpha in force that it goes on from.
        squares: whether its noise is Gaussian, with rho for alpha.
    """

    truth: Truth
    step: Fraction
    alpha_nano: int
    index: int
    before: tuple[int, int] | None = None
    squares: bool = False

    def log_at(self, truth: Fraction) -> Fraction:
        """The logarithm of its probability, in 1e-9, up to what all worlds share."""
        found = -self.alpha_nano * abs(self.index * self.step - truth)
        if self.before is not None:
            index, alpha_nano = self.before
            found += alpha_nano * abs(index * self.step - truth)
        return found


@dataclass
class Recorder:
    """Takes the place of the mechanism: answers of a seed, and all draws by snapshot."""

    rng: random.Random
    draws: dict[str, list[Draw]] = field(default_factory=dict)
    n_samples: int = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        with (
            mock.patch.object(measuring, "release", each_new(self._release)),
            mock.patch.object(measuring, "release_gaussian", each_new(self._release_gaussian)),
            mock.patch.object(measuring, "release_refined", each_refined(self._refine)),
        ):
            yield

    def of(self, trusted: Trusted, sizes: Mapping[str, tuple[int, ...]]) -> Trusted:
        """A worker's private side with worlds in place of its records."""
        for snapshot, table in trusted.tables.items():
            worlds = (
                GrowingWorlds.of(table, snapshot)
                if isinstance(table, GrowingTable)
                else Worlds(self, snapshot, sizes[snapshot])
            )
            trusted.tables[snapshot] = worlds  # type: ignore[assignment]  # counted as tables are
        return trusted

    def _release(self, truth: Truth, *, step: Fraction, alpha_nano: int, **_noise: object) -> int:
        return self._draw(truth, step, alpha_nano, None)

    def _release_gaussian(
        self, truth: Truth, *, step: Fraction, rho_nano: int, **_noise: object
    ) -> int:
        assert all((weight / step).denominator == 1 for weight in truth.weights)
        return self._draw(truth, step, rho_nano, None, squares=True)

    def _refine(
        self,
        truth: Truth,
        *,
        released_index: int,
        step: Fraction,
        old_alpha_nano: int,
        new_alpha_nano: int,
        **_noise: object,
    ) -> int:
        return self._draw(truth, step, new_alpha_nano, (released_index, old_alpha_nano))

    def _draw(
        self,
        truth: Truth,
        step: Fraction,
        alpha_nano: int,
        before: tuple[int, int] | None,
        *,
        squares: bool = False,
    ) -> int:
        made = self.draws.setdefault(truth.snapshot, [])
        # No two answers are alike, so that it shows which one a draw goes on from.
        index = int(self._answer() / step) + len(made)
        made.append(Draw(truth, step, alpha_nano, index, before, squares))
        return index

    def _answer(self) -> int:
        near, far = self.rng.randint(-2, 6), self.rng.randint(FAR, 5 * FAR)
        return self.rng.choice([near, near, far, far, far, -far])


@dataclass(frozen=True)
class Worlds:
    """Tables that give what each cell adds to a count."""

    recorder: Recorder
    snapshot: str
    sizes: tuple[int, ...]
    of_sample: int | None = None

    def answer(self, query: LinearQuery) -> Truth:
        return Truth(self.snapshot, _weights(query), self.of_sample)

    def counts(self, partition: ProductPartition) -> list[Truth]:
        return [self.answer(partition.row(i)) for i in range(partition.n_cells)]

    def sample(self, _entropy: object) -> Worlds:
        self.recorder.n_samples += 1
        return Worlds(self.recorder, self.snapshot, self.sizes, self.recorder.n_samples)


class GrowingWorlds(GrowingTable):
    """The same where data arrive: a cell adds nothing before its period is sealed."""

    snapshot: str

    @classmethod
    def of(cls, table: GrowingTable, snapshot: str) -> GrowingWorlds:
        found = cls.__new__(cls)
        found.__dict__.update(table.__dict__, snapshot=snapshot)
        return found

    def answer(self, query: LinearQuery) -> Truth:  # type: ignore[override]
        super().answer(query)  # refuses what it must
        sealed = range(self._first, self.n_sealed)
        weights = tuple(
            value if cell[self._axis] in sealed else Fraction(0)
            for cell, value in zip(cells(query.sizes), _weights(query), strict=True)
        )
        return Truth(self.snapshot, weights)

    def counts(self, partition: ProductPartition) -> list[Truth]:  # type: ignore[override]
        super().counts(partition)
        return [self.answer(partition.row(i)) for i in range(partition.n_cells)]


def _weights(query: LinearQuery) -> tuple[Fraction, ...]:
    return tuple(query.value_at(cell) for cell in cells(query.sizes))


@dataclass(frozen=True)
class Told:
    """What the draws of one snapshot tell of a person, in 1e-9.

    Args:
        coming, going: the greatest log-ratio of the answers as they were drawn, of worlds with the
            person to those without, and the other way; under `replace-one` both are of any two.
        at_worst: the same over all answers that might have come of these draws.
    """

    coming: Fraction
    going: Fraction
    at_worst: Fraction


def told(draws: Sequence[Draw], people: People, rng: random.Random) -> Told:
    """By brute force over every person that may be exchanged, in some worlds of others."""
    persons = list(people.everybody())
    place = {person: i for i, person in enumerate(persons)}
    pairs = [(place[one], place[other]) for one, other in people.exchanges()]
    vectors = [_world(person, people.sizes) for person in persons]
    others = [tuple(0 for _ in vectors[0])]
    others += [_joined(*rng.choices(vectors, k=2)) for _ in range(N_WORLDS - 1)]
    ones, twos = (np.array(ends) for ends in zip(*pairs, strict=True))
    if any(draw.squares for draw in draws):
        assert all(draw.squares for draw in draws)
        moved = [d.alpha_nano * _moves(d, vectors, ones, twos) ** 2 for d in draws]
        most = sum(moved[1:], moved[0]).max()
        return Told(most, most, most)
    ratios = []
    for world in others:
        logs = log_likelihoods(draws, [_joined(world, vector) for vector in vectors])
        ratios.append(logs[ones] - logs[twos])
    coming, going = max(r.max() for r in ratios), max((-r).max() for r in ratios)
    if people.relation == "replace-one":
        coming = going = max(coming, going)
    sampled = [draw for draw in draws if draw.truth.sample is not None]
    logs = log_likelihoods(sampled, vectors)
    worst = _worst_answers(draws, vectors, ones, twos) + abs(logs[ones] - logs[twos])
    return Told(coming, going, worst.max())


def _world(person: Person, sizes: tuple[int, ...]) -> World:
    counted = Counter(person)
    return tuple(counted[cell] for cell in cells(sizes))


def _joined(one: World, other: World) -> World:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def log_likelihoods(draws: Sequence[Draw], worlds: Sequence[World]) -> Any:
    """Of all answers in each world, in 1e-9, up to what all worlds share; an array of fractions."""
    total = np.array([Fraction(0)] * len(worlds), dtype=object)
    samples: dict[int, list[Draw]] = {}
    for draw in draws:
        if draw.truth.sample is not None:
            samples.setdefault(draw.truth.sample, []).append(draw)
            continue
        truths = _truths(draw, worlds)
        at = {truth: draw.log_at(truth) for truth in set(truths)}
        total += np.array([at[truth] for truth in truths], dtype=object)
    for of_sample in samples.values():
        found = [_of_sample(tuple(of_sample), world) for world in worlds]
        total += np.array(found, dtype=object)
    return total


def _truths(draw: Draw, worlds: Sequence[World]) -> list[Fraction]:
    scale = lcm(*(w.denominator for w in draw.truth.weights))
    weights = np.array([int(w * scale) for w in draw.truth.weights], dtype=np.int64)
    return [Fraction(int(n), scale) for n in np.array(worlds, dtype=np.int64) @ weights]


@functools.cache
def _of_sample(draws: tuple[Draw, ...], world: World) -> Fraction:
    """The logarithm for answers about a secret sample, summed over every sample of the world."""
    samples = list(product(*(range(n + 1) for n in world)))
    logs = log_likelihoods([_in_the_open(draw) for draw in draws], samples)
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for sample, log in zip(samples, logs, strict=True):
            chance = Fraction(1)
            for n, k in zip(world, sample, strict=True):
                chance *= comb(n, k) * RATE**k * (1 - RATE) ** (n - k)
            total += _mpf(chance) * mpmath.exp(_mpf(log) / 10**9)
        return Fraction(int(mpmath.nint(mpmath.log(total) * 10**9 * 2**_BITS)), 2**_BITS)


def _in_the_open(draw: Draw) -> Draw:
    truth = Truth(draw.truth.snapshot, draw.truth.weights)
    return Draw(truth, draw.step, draw.alpha_nano, draw.index, draw.before)


def _mpf(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def _worst_answers(draws: Sequence[Draw], vectors: Sequence[World], ones: Any, twos: Any) -> Any:
    """Per exchange the log-ratio if each answer lay beyond all truths, on whichever side.

    Beyond them a draw's logarithm moves by alpha times what its truth moves by, and by the alpha of
    the answer before the other way. So an answer's side tells by what it was drawn with, less what
    was drawn from it; the sides are free of one another, so these add up.
    """
    total = np.array([Fraction(0)] * len(ones), dtype=object)
    open_ones = [draw for draw in draws if draw.truth.sample is None]
    moved = {id(d): _moves(d, vectors, ones, twos) for d in open_ones}
    by_answer: dict[tuple[int, Fraction], Any] = {}
    for draw in open_ones:
        by_answer[draw.index, draw.step] = draw.alpha_nano * moved[id(draw)]
    for draw in open_ones:
        if draw.before is not None:
            index, alpha_nano = draw.before
            by_answer[index, draw.step] = by_answer[index, draw.step] - alpha_nano * moved[id(draw)]
    return sum((abs(one) for one in by_answer.values()), total)


def _moves(draw: Draw, vectors: Sequence[World], ones: Any, twos: Any) -> Any:
    truths = np.array(_truths(draw, vectors), dtype=object)
    return truths[ones] - truths[twos]


def losses(
    found: Mapping[str, Told], disjoint: Iterable[tuple[str, str]]
) -> tuple[Fraction, Fraction]:
    """The greatest loss of a person of any files no two of which are declared to be of others.

    Of the answers as they were drawn, and at worst; in 1e-9.
    """
    pairs = list(disjoint)
    as_drawn = max(
        _of_files({name: one.coming for name, one in found.items()}, pairs),
        _of_files({name: one.going for name, one in found.items()}, pairs),
    )
    return as_drawn, _of_files({name: one.at_worst for name, one in found.items()}, pairs)


def _of_files(of_each: Mapping[str, Fraction], pairs: Sequence[tuple[str, str]]) -> Fraction:
    names, best = list(of_each), Fraction(0)
    for chosen in product([False, True], repeat=len(names)):
        members = [name for name, is_in in zip(names, chosen, strict=True) if is_in]
        if not any(one in members and other in members for one, other in pairs):
            best = max(best, sum((of_each[name] for name in members), Fraction(0)))
    return best
