"""`python -m tests.docs`: draw the figures of docs/, which pages show wherever they are read."""

from __future__ import annotations

from pathlib import Path

from tests.docs.figures import figures

FIGURES = Path(__file__).parents[2] / "docs" / "figures"

for name, text in figures().items():
    (FIGURES / name).write_text(text, encoding="utf-8")
    print(f"docs/figures/{name}")
