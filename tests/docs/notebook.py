"""`python -m tests.docs.notebook URL`: run the notebook on a new demo, keep its outputs."""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "python.ipynb"
DEMO_URL = "http://127.0.0.1:8000"


def run(source: str, namespace: dict[str, Any]) -> Any:
    """The value of a cell: of its last statement, where that is an expression."""
    parsed = ast.parse(source)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, "cell", "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # type: ignore[attr-defined]


def outputs_of(cells: list[dict[str, Any]], url: str) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """Of each cell of code its value and its outputs, run one after the other."""
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with redirect_stdout(printed):
                value = run("".join(cell["source"]).replace(DEMO_URL, url), namespace)
            yield value, [*_printed(printed.getvalue()), *_shown(value)]


def _printed(text: str) -> Iterator[dict[str, Any]]:
    if text:
        yield {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _shown(value: Any) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_svg_"):
        data["image/svg+xml"] = value._repr_svg_().splitlines(keepends=True)
    yield {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}


def main(url: str) -> None:
    """Replace the outputs that are kept."""
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    coded = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    for cell, (_, outputs) in zip(coded, outputs_of(document["cells"], url), strict=True):
        cell["outputs"] = outputs
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
