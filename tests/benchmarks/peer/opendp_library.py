"""OpenDP: exact discrete Laplace noise, its own functions of accuracy, report noisy max.

Groups are disjoint, so their statement costs what one group does. Sums are of the distance from the
middle of the bounds, which halves their sensitivity.
"""

from __future__ import annotations

import csv

import numpy as np
import opendp.prelude as dp

from tests.benchmarks.peer.asking import Ask, Rows, Statement, serve

dp.enable_features("contrib")
SPACE = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()


def opened(path: str, _n_records: int) -> Ask:
    """Columns as arrays."""
    with open(path, encoding="utf-8", newline="") as file:
        head, *records = csv.reader(file)
    columns = {name: np.array(column) for name, column in zip(head, zip(*records), strict=True)}  # noqa: B905
    for name in ("age", "hours_per_week"):
        columns[name] = columns[name].astype(np.int32)

    def ask(statement: Statement) -> tuple[Rows, float]:
        rows, epsilon = [], 0.0
        for key in statement["keys"] or [""]:
            mask = np.ones(len(columns["age"]), dtype=bool)
            for name, wanted in statement["where"].items():
                column = columns[name]
                is_range = isinstance(wanted, list)
                mask &= (
                    (column >= wanted[0]) & (column <= wanted[1]) if is_range else column == wanted
                )
            if key:
                mask &= columns[statement["by"]] == key
            number, cost = KINDS[statement["kind"]](statement, columns, mask)
            rows.append((key, number))
            epsilon = max(epsilon, cost)
        return rows, epsilon

    return ask


def _count(statement, columns, mask):
    scale = dp.accuracy_to_discrete_laplacian_scale(float(statement["half"]), 0.05)
    return _noisy_count(columns["age"][mask], scale)


def _noisy_count(values, scale):
    measure = SPACE >> dp.t.then_count() >> dp.m.then_laplace(scale)
    return measure(values), measure.map(1)


def _mean(statement, columns, mask):
    low, high = statement["bounds"]
    middle, spread = (low + high) // 2, (high - low + 1) // 2
    values = columns[statement["column"]][mask] - middle
    total = SPACE >> dp.t.then_clamp((-spread, spread)) >> dp.t.then_sum()
    noisy = total >> dp.m.then_laplace(spread / statement["epsilon_sum"])
    n, cost = _noisy_count(values, 1 / statement["epsilon_count"])
    return middle + noisy(values) / max(n, 1), noisy.map(1) + cost


def _median(statement, columns, mask):
    low, high = statement["bounds"]
    candidates = list(range(low, high + 1))
    scores = dp.t.make_quantile_score_candidates(*SPACE, candidates, 0.5)
    scale = 2 * scores.map(1) / statement["epsilon"]
    choice = scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)
    return candidates[choice(columns[statement["column"]][mask])], choice.map(1)


KINDS = {"count": _count, "mean": _mean, "median": _median}

if __name__ == "__main__":
    serve(opened)
