"""`python -m tests.docs`: write what is made from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.pages import pages

DOCS = Path(__file__).parents[2] / "docs"

for name, text in pages().items():
    (DOCS / name).parent.mkdir(exist_ok=True)
    (DOCS / name).write_text(text, encoding="utf-8")
    print(f"docs/{name}")
