"""notebook.md: the notebook of docs/ with the outputs that it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[3] / "docs" / "python.ipynb"


def notebook_files() -> dict[str, str]:
    """The page, and its pictures by the names that it gives them."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    files: dict[str, str] = {}
    parts = [part for cell in document["cells"] for part in _parts(cell, files)]
    return {"notebook.md": "\n\n".join(parts) + "\n"} | files


def _parts(cell: dict[str, Any], files: dict[str, str]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/svg+xml" in data:
            name = f"notebook-{len(files) + 1}.svg"
            files[name] = "".join(data["image/svg+xml"])
            yield f"![What the cell above draws]({name})"
        else:
            text = "".join(output.get("text") or data["text/plain"])
            yield f"```text\n{text.rstrip()}\n```"
