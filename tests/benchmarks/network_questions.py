"""Random questions to a network, and how far a learnt network's answers are from the true ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qserver.errors import NetworkError
from qserver.models.network.network import Network, Table
from qserver.models.network.variable_elimination import NetworkQuestions

from .simulated_tables import SimulatedTables

N_EACH = 10
N_BEST = 20
MOST_NAMES = 3
# What of both distributions is uniform before their divergence, infinite otherwise where a
# conditional distribution is deterministic.
MIXED = 1e-3


@dataclass(frozen=True)
class Asked:
    """One question: the variables asked and what was observed."""

    names: tuple[str, ...]
    evidence: Mapping[str, str]


@dataclass(frozen=True)
class Errors:
    """Errors of a learnt network against the one of greatest likelihood on the same records.

    Args:
        parameter_l1, parameter_kl: means over the rows of all conditional tables that occur.
        query_l1, query_kl: means over the marginal and the conditional questions.
        best_found: the share of questions for the most probable values answered alike.
    """

    parameter_l1: float
    parameter_kl: float
    query_l1: float
    query_kl: float
    best_found: float


@dataclass(frozen=True, eq=False)
class Examination:
    """Questions of one run with their true answers."""

    source: SimulatedTables
    truth: Network
    asked: tuple[Asked, ...]
    answers: tuple[Table, ...]
    best_asked: tuple[Asked, ...]
    best: tuple[Mapping[str, str], ...]

    @staticmethod
    def drawn(source: SimulatedTables, truth: Network, seed: int) -> Examination:
        """Ten marginal, ten conditional and twenty questions for the most probable values.

        Each names one to three variables; conditions are one to three values that some record has.
        """
        generator = np.random.default_rng([seed, 1])
        none, some = (0, 0), (1, MOST_NAMES)
        asked = [_asked(source, generator, n) for n in [none] * N_EACH + [some] * N_EACH]
        best_asked = [_asked(source, generator, some) for _ in range(N_BEST)]
        questions = NetworkQuestions(truth)
        return Examination(
            source,
            truth,
            tuple(asked),
            tuple(questions.probability(a.names, a.evidence) for a in asked),
            tuple(best_asked),
            tuple(questions.most_probable(a.names, a.evidence).labels for a in best_asked),
        )

    def errors(self, learnt: Network) -> Errors:
        """How far `learnt` is from the truth."""
        rows = [self._rows(learnt, i) for i in range(len(learnt.cpds))]
        questions = NetworkQuestions(learnt)
        pairs = [
            (_answer(questions, a, true), true)
            for a, true in zip(self.asked, self.answers, strict=True)
        ]
        found = [_labels(questions, a) for a in self.best_asked]
        alike = [f == dict(t) for f, t in zip(found, self.best, strict=True)]
        return Errors(
            parameter_l1=float(np.concatenate([r[0] for r in rows]).mean()),
            parameter_kl=float(np.concatenate([r[1] for r in rows]).mean()),
            query_l1=float(np.mean([np.abs(p - t).sum() for p, t in pairs])),
            query_kl=float(np.mean([_divergence(p.ravel(), t.ravel()) for p, t in pairs])),
            best_found=float(np.mean(alike)),
        )

    def _rows(self, learnt: Network, i: int) -> tuple[Table, Table]:
        size = learnt.cpds[i].shape[-1]
        occurs = self.source.counts(self.truth.structure.family(i)).reshape(-1, size).sum(1) > 0
        found = learnt.cpds[i].reshape(-1, size)[occurs]
        true = self.truth.cpds[i].reshape(-1, size)[occurs]
        return np.abs(found - true).sum(axis=1), _divergence(found, true)


def _asked(source: SimulatedTables, generator: np.random.Generator, n: tuple[int, int]) -> Asked:
    variables = source.structure.variables
    order = generator.permutation(len(variables))
    n_names = int(generator.integers(1, MOST_NAMES + 1))
    n_observed = int(generator.integers(*n, endpoint=True))
    record = source.records[int(generator.integers(len(source.records)))]
    seen = order[n_names : n_names + n_observed]
    return Asked(
        tuple(variables[i].name for i in order[:n_names]),
        {variables[i].name: variables[i].labels[record[i]] for i in seen},
    )


def _answer(questions: NetworkQuestions, asked: Asked, true: Table) -> Table:
    try:
        return questions.probability(asked.names, asked.evidence)
    except NetworkError:
        # The learnt network holds the evidence for impossible.
        return np.full(true.shape, 1 / true.size)


def _labels(questions: NetworkQuestions, asked: Asked) -> Mapping[str, str]:
    try:
        return questions.most_probable(asked.names, asked.evidence).labels
    except NetworkError:
        return {}


def _divergence(found: Table, true: Table) -> Table:
    """Kullback-Leibler divergence of `found` from `true` along the last axis."""
    size = found.shape[-1]
    p, q = ((1 - MIXED) * x + MIXED / size for x in (found, true))
    return np.asarray((p * np.log(p / q)).sum(axis=-1))
