"""`python -m tests.docs`: write what is made from the code."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import pages

DOCS = Path(__file__).parents[2] / "docs"

for name, text in pages().items():
    (DOCS / name).parent.mkdir(exist_ok=True)
    (DOCS / name).write_text(text, encoding="utf-8")
    print(f"docs/{name}")
