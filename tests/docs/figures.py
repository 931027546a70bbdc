"""The pictures of docs/, drawn by the project's own plots from its mathematics and kept figures."""

from __future__ import annotations

import math
from fractions import Fraction

from qserver.answering.plots.chart import Axis, Chart, Line, svg_of
from qserver.answering.plots.figures import (
    Bar,
    BarChart,
    PosteriorCurve,
    posterior_chart,
    svg_of_bars,
    thresholds_about,
)
from qserver.client import Table
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.benchmarks.endurance.figure import endurance
from tests.benchmarks.purchases.figure import purchases
from tests.benchmarks.weeks_figure import weeks

_ESTIMATE = 12_340.0
_SCALES = (9.0, 6.0, 4.0)
_CONFIDENCE = 0.95


def figures() -> dict[str, str]:
    """SVG texts by file name."""
    return {
        "posterior.svg": posterior(),
        "refinement.svg": refinement(),
        "ledger.svg": ledger(),
        "endurance.svg": endurance(),
        "purchases.svg": purchases(),
        "weeks.svg": weeks(),
        "education.svg": education(),
    }


def posterior() -> str:
    """An estimate with three Laplace errors, and its 95 percent interval."""
    error = LaplaceSum(_SCALES)
    half = error.half_width(_CONFIDENCE)
    low, high = _ESTIMATE - half, _ESTIMATE + half
    thresholds = thresholds_about(low, high, n=161)
    curve = PosteriorCurve(
        thresholds=thresholds,
        at_least=[error.cdf(_ESTIMATE - t) for t in thresholds],
        low=round(low, 1),
        high=round(high, 1),
        confidence=_CONFIDENCE,
    )
    return svg_of(posterior_chart(curve, title="What is known of a count"))


def education() -> str:
    """A table of six groups as a client draws it; the numbers are made up."""
    names = ("9th", "HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate")
    rows = [
        {
            "group": [name],
            "cells": [
                {"estimate": n, "interval": [n - half, n + half], "source": "history"},
            ],
        }
        for name, n, half in zip(
            names,
            (512, 10_501, 7_290, 5_355, 1_723, 413),
            (198, 640, 410, 198, 198, 198),
            strict=True,
        )
    ]
    document = {
        "groups": ["education"],
        "columns": ["n"],
        "rows": rows,
        "confidence": _CONFIDENCE,
        "simultaneous": None,
        "epsilon_charged": 0.0,
        "epsilon_remaining": 2.0,
        "version": 1,
    }
    return Table.of(document).plot("Adults by education").svg


def refinement() -> str:
    """What it costs to halve an interval of 100 at 0.95 five times, both ways."""
    lengths = [100 / 2**i for i in range(6)]
    prices = [2 * math.log(1 / (1 - _CONFIDENCE)) / length for length in lengths]
    anew = [sum(prices[: i + 1]) for i in range(len(prices))]
    steps = list(range(len(prices)))
    return svg_of(
        Chart(
            title="Halving an interval again and again",
            description="The epsilon spent in all after each halving, refined and measured anew.",
            x=Axis("times halved", 0, steps[-1]),
            y=Axis("epsilon spent in all", 0, max(anew)),
            marks=(Line("measured anew each time", steps, anew), Line("refined", steps, prices)),
        )
    )


def ledger() -> str:
    """Three charges on a domain of sex and two ages, added up by cell."""
    cells = ("women under 40", "women of 40 and over", "men under 40", "men of 40 and over")
    charges = (
        ((1, 1, 0, 0), Fraction(3, 10)),
        ((1, 0, 1, 0), Fraction(2, 10)),
        ((0, 0, 0, 1), Fraction(1, 10)),
    )
    losses = [sum((h[i] * a for h, a in charges), Fraction()) for i in range(len(cells))]
    spent, limit = max(losses), Fraction(1)
    return svg_of_bars(
        BarChart(
            title="Loss by cell after three questions: women, people under 40, older men",
            description=f"The largest loss, {float(spent):g}, is what is spent of the limit.",
            bars=tuple(
                Bar(name, float(loss), f"{float(loss):g}")
                for name, loss in zip(cells, losses, strict=True)
            ),
            limit=float(limit),
            limit_text=f"limit {float(limit):g} epsilon",
        )
    )
