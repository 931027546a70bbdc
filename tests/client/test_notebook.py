"""docs/python.ipynb and the examples of docs/python.md run, against the census data."""

from __future__ import annotations

import inspect
import io
import json
import pkgutil
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from deploy.site.pages.made import made
from qserver import client as client_package
from qserver.client import Answer, AsyncClient, Client, Plot
from qserver.client.clients import AsyncModelPrices, AsyncModels, ModelPrices, Models
from tests.docs.notebook import DEMO_URL, NOTEBOOK, outputs_of, run

DOCS = Path(__file__).parents[2] / "docs"
N_WOMEN_IN_THEIR_THIRTIES = 2720


@pytest.mark.slow
def test_the_notebook_runs_and_its_kept_outputs_are_of_the_kinds_that_come(demo_url: str) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    found = list(outputs_of(cells, demo_url))
    shown = [value for value, _ in found]
    [answer, *_] = [value for value in shown if isinstance(value, Answer)]
    assert abs(answer.estimate - N_WOMEN_IN_THEIR_THIRTIES) < 300
    assert ("history", 0.0) in shown
    assert [v.title for v in shown if isinstance(v, Plot)] == ["Women of 30 to 39", "Income by sex"]
    kept = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert [_kinds(outputs) for outputs in kept] == [_kinds(outputs) for _, outputs in found]
    printed = "".join(str(outputs) for outputs in kept)
    assert "group by it" in printed
    assert "The answer costs" in printed


def _kinds(outputs: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [(item["output_type"], sorted(item.get("data", {}))) for item in outputs]


@pytest.mark.slow
def test_the_examples_of_the_reference_run(
    demo_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"(?m)^```python\n(import (?!pandas).*?)^```$", text, flags=re.DOTALL)
    assert len(examples) == 5
    printed = io.StringIO()
    with redirect_stdout(printed):
        values = [run(example.replace(DEMO_URL, demo_url), {}) for example in examples]
    assert "The largest" in printed.getvalue()
    assert all(isinstance(answer, Answer) for answer in values[1])
    assert {path.name for path in tmp_path.glob("*.svg")} == {"education.svg"}


def test_the_api_page_has_every_public_name_of_the_client() -> None:
    page = made()["python-api.md"]
    named = re.findall(r"(?m)^::: (qserver\.client\.[\w.]+)$", page)
    assert set(client_package.__all__) <= {name.rpartition(".")[2] for name in named}
    for name in named:
        assert pkgutil.resolve_name(name).__doc__, name


def test_every_method_of_a_client_has_a_docstring_that_the_page_can_show() -> None:
    for kind in (Client, AsyncClient, Models, AsyncModels, ModelPrices, AsyncModelPrices):
        methods = [method for name, method in vars(kind).items() if not name.startswith("_")]
        assert [m.__name__ for m in methods if inspect.isfunction(m) and not m.__doc__] == []
