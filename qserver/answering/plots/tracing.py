"""The plot of an audit: power against false positives of guessing, bound, cap, and an attack."""

from __future__ import annotations

from math import isinf

from qserver.answering.plots.chart import Area, Axis, Chart, Line, Mark
from qserver.models.tracing.report import TracingReport


def tracing_chart(report: TracingReport) -> Chart:
    """The plot of true against false positives of an audit."""
    curves, areas = report.curves, report.areas
    fpr = (0.0, *curves.fpr)

    def line(label: str, power: tuple[float, ...] | None, auc: float | None) -> list[Mark]:
        if power is None:
            return []
        return [Line(f"{label}, area {auc:.3f}", fpr, (0.0, *power))]

    cap, attack = report.request.cap, areas.attack
    epsilon = "" if cap is None else f"cap of epsilon {cap.epsilon:g}"
    measured = None if attack is None else attack.value
    marks: list[Mark] = [
        Area("what structure and epsilon allow", fpr, fpr, (0.0, *curves.limit)),
        *line("structural bound", curves.bound, areas.bound),
        *line(_reference_name(report), curves.finite_bound, areas.finite_bound),
        *line(epsilon, curves.cap, areas.cap),
        *line("attack", curves.attack, measured),
        Line("guessing, area 0.500", (0.0, 1.0), (0.0, 1.0)),
    ]
    return Chart(
        title=_title(report),
        description=_description(report),
        x=Axis("false positives: others called members", 0.0, 1.0),
        y=Axis("true positives: members called members", 0.0, 1.0),
        marks=tuple(marks),
    )


def _reference_name(report: TracingReport) -> str:
    n = report.request.n_reference
    return "" if isinf(n) else f"bound with {n:,.0f} reference records"


def _title(report: TracingReport) -> str:
    request = report.request
    private = "PRIVATE. " if report.private else ""
    return (
        f"{private}How well members could be told: {request.complexity:,} released numbers "
        f"learnt from {request.n:,.0f} records"
    )


def _description(report: TracingReport) -> str:
    areas = report.areas
    parts = [f"Area under the structural bound {areas.bound:.4f}"]
    if areas.cap is not None:
        parts.append(f"under the cap of epsilon {areas.cap:.4f}")
        parts.append(f"under the lesser of the two {areas.limit:.4f}")
    if areas.attack is not None:
        parts.append(f"under the measured attack {areas.attack.value:.4f}")
    return "; ".join(parts) + "; guessing has 0.5."
