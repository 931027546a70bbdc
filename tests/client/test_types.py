"""A type checker sees precise arguments and results in the methods of both clients."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

HEAD = """
from qserver import AsyncClient, Client
from qserver.client import Answer, CheckPrice, DatasetInfo, ModelInfo, Probability, Table

from typing import assert_type
client, other = Client(), AsyncClient()
"""
RIGHT = """
assert_type(client.datasets(), list[DatasetInfo])
assert_type(client.query("people", {"where": {}}, length=3), Answer)
assert_type(client.sql("SELECT 1"), Table)
assert_type(client.probability("people", {}, at_least=1), Probability)
assert_type(client.models.all("people"), list[ModelInfo])
assert_type(client.models.write_sample("people", "m", "x.csv"), None)
assert_type(client.models.prices.check("people", "m", {}, length=3), CheckPrice)
async def ask() -> None:
    assert_type(await other.query("people", {"where": {}}, length=3), Answer)
    assert_type(await other.models.prices.check("people", "m", {}, length=3), CheckPrice)
"""


WRONG = """
client.query("people", {})  # call-arg
client.query("people", {}, length="3")  # arg-type
client.models.learn_network("people", [], epsilon=1, alocation="best")  # call-arg
other.datasets()  # unused-coroutine
client.nothing()  # attr-defined
other.models.prices.sample()  # attr-defined
"""


@pytest.mark.slow
def test_results_and_arguments_of_both_clients_are_checked(tmp_path: Path) -> None:
    """mypy finds the mistakes of a user's program, each on its line, and nothing else."""
    path = tmp_path / "program.py"
    path.write_text(HEAD + RIGHT + WRONG)
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--follow-imports=silent"]
    found, failure, _ = api.run([*options, "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert failure == ""
    errors = re.findall(r":(\d+): error: .*\[([a-z-]+)\]", found)
    wanted = [
        (str(n), line.partition("  # ")[2])
        for n, line in enumerate(path.read_text().splitlines(), start=1)
        if "  # " in line
    ]
    assert list(dict.fromkeys(errors)) == wanted
