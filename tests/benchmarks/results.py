"""The kept results of full runs: read, and shown whole."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .tables import table_text

RESULTS = Path(__file__).parent / "results"


def kept(name: str) -> Mapping[str, Any]:
    """The document of the last full run of a benchmark."""
    found: Mapping[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def full_text(document: Mapping[str, Any]) -> str:
    """A benchmark's results in Markdown: what it measures, its parameters, its whole table."""
    parameters = ", ".join(f"{name} {value}" for name, value in document["parameters"].items())
    name, title = document["benchmark"], document["title"]
    return (
        f"## {name}\n\n**{title}.** {_about(name)}\n\n"
        f"Parameters: {parameters}.\n\n{table_text(document['rows'])}\n"
    )


def results_page() -> str:
    """All kept results as one page."""
    names = sorted(path.stem for path in RESULTS.glob("*.json"))
    parts = (full_text(kept(name)) for name in names)
    head = "# All results\n\nThe full tables behind [the benchmarks](benchmarks.md).\n"
    return "\n".join([head, *parts])


def _about(name: str) -> str:
    """The docstring of a benchmark's module, which is not loaded for it."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""
