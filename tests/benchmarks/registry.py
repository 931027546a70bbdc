"""The benchmarks by name: every module of this package that has a function `run`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from .tables import Report


class Benchmark(Protocol):
    """What a benchmark's module offers as `run`."""

    def __call__(self, *, quick: bool) -> Report:
        """Measure and report; `quick` is a small version that takes a few seconds."""


def benchmark_names() -> list[str]:
    """Names of all benchmarks. Read from the files, so that asking loads none of them."""
    paths = sorted(Path(__file__).parent.glob("*.py"))
    return [p.stem for p in paths if "\ndef run(" in p.read_text(encoding="utf-8")]


def benchmark_of(name: str) -> Benchmark:
    """The benchmark of this name."""
    return cast("Benchmark", import_module(f".{name}", __package__).run)
