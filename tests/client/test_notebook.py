"""docs/python.ipynb and the examples of docs/python.md run, against the census data."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from qserver import client as client_package
from qserver.client import (
    Answer,
    AsyncClient,
    Budget,
    Cell,
    CheckPrice,
    Client,
    Cost,
    DatasetInfo,
    Distribution,
    ErrorBounds,
    History,
    Interval,
    Job,
    LeakAudit,
    LearningPrice,
    LearntModel,
    ModelCount,
    ModelInfo,
    MostProbable,
    OwnPrice,
    Plot,
    Posterior,
    Price,
    Released,
    StructureProposal,
    SyntheticRecords,
    Table,
)
from qserver.client.clients import AsyncModelPrices, AsyncModels, ModelPrices, Models

DEMO_URL = "http://127.0.0.1:8000"
DOCS = Path(__file__).parents[2] / "docs"
N_WOMEN_IN_THEIR_THIRTIES = 2720


def _run(source: str, namespace: dict[str, Any]) -> Any:
    """The value of a cell: of its last statement, where that is an expression."""
    parsed = ast.parse(source)
    last = parsed.body.pop() if isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, "cell", "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(demo_url: str) -> None:
    cells = json.loads((DOCS / "python.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {}
    printed = io.StringIO()
    shown = []
    with redirect_stdout(printed):
        for cell in cells:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                source = "".join(cell["source"]).replace(DEMO_URL, demo_url)
                shown.append(_run(source, namespace))
    answer, table = namespace["answer"], namespace["table"]
    assert isinstance(answer, Answer)
    assert abs(answer.estimate - N_WOMEN_IN_THEIR_THIRTIES) < 300
    assert isinstance(table, Table)
    assert ("history", 0.0) in shown
    assert "group by it" in printed.getvalue()
    assert "The answer costs" in printed.getvalue()
    assert [v.title for v in shown if isinstance(v, Plot)] == ["Women of 30 to 39", "Income by sex"]
    for value in shown:
        assert repr(value)
        if isinstance(value, Answer | Table):
            assert value._repr_html_().startswith("<")


@pytest.mark.slow
def test_the_examples_of_the_reference_run(
    demo_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"(?m)^```python\n(.*?)^```$", text, flags=re.DOTALL)
    assert len(examples) == 8
    printed = io.StringIO()
    with redirect_stdout(printed):
        values = [_run(example.replace(DEMO_URL, demo_url), {}) for example in examples]
    lines = printed.getvalue().splitlines()
    assert len(lines) > 1 + 3 + 3 + 3
    assert any("held to be at least 0" in line for line in lines)
    assert any("The largest" in line for line in lines)
    assert all(isinstance(answer, Answer) for answer in values[1])
    assert {path.name for path in tmp_path.glob("*.svg")} == {"education.svg", "women.svg"}


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_the_reference_has_every_method_with_its_arguments(client: type[Any]) -> None:
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    methods = [name for name in vars(client) if not name.startswith("_")]
    stated = re.findall(r"(?m)^\| `(\w+)\((.*)\)` \|", text)
    assert sorted(methods) == sorted(name for name, _ in stated)
    for name, arguments in [
        *stated,
        ("__init__", "url, *, token, timeout_s, wait_s, retries, sleep, ca, proxy"),
    ]:
        [_, *expected] = inspect.signature(getattr(client, name)).parameters
        assert [a for a in arguments.split(", ") if a not in ("", "*")] == expected
    assert "`Client(url, *, token, timeout_s, wait_s, retries, sleep, ca, proxy)`" in text


@pytest.mark.parametrize("models", [Models, AsyncModels])
def test_the_reference_has_every_method_of_models(models: type[Any]) -> None:
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    stated = re.findall(r"(?m)^\| `models\.(\w+)\((.*)\)` \|", text)
    assert sorted(n for n in vars(models) if not n.startswith("_")) == sorted(n for n, _ in stated)
    for name, arguments in stated:
        [_, *expected] = inspect.signature(getattr(models, name)).parameters
        assert [a.lstrip("*") for a in arguments.split(", ") if a != "*"] == expected


@pytest.mark.parametrize(
    ("models", "prices"), [(Models, ModelPrices), (AsyncModels, AsyncModelPrices)]
)
def test_prices_of_models_take_what_the_methods_take(models: type[Any], prices: type[Any]) -> None:
    pairs = {
        "model": "learn",
        "network": "learn_network",
        "marginals": "learn_marginals",
        "check": "check",
    }
    assert {n for n in vars(prices) if not n.startswith("_")} == set(pairs)
    for price, method in pairs.items():
        parameters = inspect.signature(getattr(prices, price)).parameters
        assert parameters == inspect.signature(getattr(models, method)).parameters
        assert f"`prices.{price}`" in (DOCS / "python.md").read_text(encoding="utf-8")


def test_the_reference_has_every_field_of_every_result() -> None:
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    models = (LearntModel, ModelInfo, Distribution, MostProbable, ModelCount, LeakAudit)
    for result in (
        *(Answer, Interval, Cost, Table, Cell, Price, DatasetInfo),
        *(Posterior, Budget, History, Released, Job, OwnPrice),
        *(*models, SyntheticRecords, CheckPrice, LearningPrice, ErrorBounds, StructureProposal),
    ):
        [line] = re.findall(rf"(?m)^- `{result.__name__}`: .*$", text)
        for item in fields(result):
            assert f"`{item.name}`" in line
    for name in (n for n in client_package.__all__ if n.endswith("Error")):
        assert f"| `{name}` |" in text
