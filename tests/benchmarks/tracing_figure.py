"""`python -m tests.benchmarks.tracing_figure`: the figure of docs/tracing.md, from scratch.

It takes the cases of the benchmark `tracing` that release alarm learnt from 691 records.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qserver.answering.plots.chart import Area, Axis, Chart, Line, svg_of
from qserver.models.network.structure import complexity
from qserver.models.tracing.bound import PrivacyCap, TracingBound
from qserver.models.tracing.report import CURVE_FPR

from .tracing import N_PRIVATE, N_SPLITS, SEED, Case, alarm_cases, roc_of

FIGURE = Path(__file__).parents[2] / "docs" / "tracing.svg"


def figure() -> str:
    """The figure as SVG text."""
    cases = {case.epsilon: case for case in alarm_cases() if case.allocation == "best"}
    bound = TracingBound(complexity(cases[None].structure), N_PRIVATE)
    cap = PrivacyCap(1.0)
    both = np.minimum(bound.power(CURVE_FPR), cap.power(CURVE_FPR))
    lines = [
        _line("structural bound", bound.power(CURVE_FPR)),
        _line("attack on exact parameters", _mean_power(cases[None])),
        _line("attack at epsilon 10", _mean_power(cases[10.0])),
        _line("attack at epsilon 1", _mean_power(cases[1.0])),
        _line("cap of epsilon 1", cap.power(CURVE_FPR)),
    ]
    zero_to_one = (0.0, *CURVE_FPR)
    area = Area(
        "what structure and epsilon 1 allow", zero_to_one, zero_to_one, (0.0, *both.tolist())
    )
    chart = Chart(
        title=f"Telling the {N_PRIVATE} records that alarm was learnt from",
        description="The attack on exact parameters stays below the structural bound; at epsilon "
        "10 it is weaker, and at epsilon 1 hardly better than guessing.",
        x=Axis("false positives: others called members", 0.0, 1.0),
        y=Axis("true positives: members called members", 0.0, 1.0),
        marks=(area, *lines),
    )
    return svg_of(chart)


def _line(label: str, power: NDArray[np.float64]) -> Line:
    return Line(label, (0.0, *CURVE_FPR), (0.0, *power.tolist()))


def _mean_power(case: Case) -> NDArray[np.float64]:
    """Power by error, the mean over the benchmark's splits."""
    curves = [
        roc_of(case, np.random.default_rng([SEED, i])).power(CURVE_FPR) for i in range(N_SPLITS)
    ]
    mean: NDArray[np.float64] = np.mean(curves, axis=0)
    return mean


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
