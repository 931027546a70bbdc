"""The tutorial of one's own table runs as it stands, and every statement of the pages is read."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qserver.cli.local.demo import adult_domain
from qserver.query.domain_loading import load_domain
from qserver.query.sql.parser import parse_statement

DOCS = Path(__file__).parents[2] / "docs"
OWN = (DOCS / "own-table.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```sh\n(.*?)^```", OWN)
STAYS = {"qserver serve": "answers at", "qserver-worker run": "worker ready"}
TOLD = sorted(
    {
        text
        for page in DOCS.rglob("*.md")
        for text in re.findall(r'qserver sql (?:--no-spend )?"([^"]+)"', page.read_text("utf-8"))
    }
)
LATER = "AS OF"  # of data of which periods are sealed
WRONG = (LATER, "sex = 'female'", "COUNT(*), AVG(age) FROM adult GROUP BY sex WITHIN 100")


@contextmanager
def staying(block: str, said: str, **how: object) -> Iterator[None]:
    """A command that stays, once it said that it is ready."""
    command, out = ["bash", "-c", f"exec {block}"], subprocess.PIPE
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, **how)  # type: ignore[call-overload]
    try:
        assert any(said in line for line in process.stdout)
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.slow
def test_the_tutorial_of_ones_own_table_runs_as_it_stands(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environ = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "QSERVER_PORT": port,
        "QSERVER_URL": f"http://127.0.0.1:{port}",
    }
    printed = _run([block.replace(":8000", f":{port}") for block in BLOCKS], tmp_path, environ)
    assert "ok: 4 attributes, 1 level, 240 cells; all found among 5 columns" in printed
    assert "Records per person: 1, enforced." in printed
    assert re.search(r"(?m)^North +[\d,]+ ", printed)
    assert printed.count("ok ") > 10
    for line in re.findall(r"(?ms)^```text\n(.*?)^```", OWN)[0].splitlines():
        assert line in printed


def _run(blocks: list[str], folder: Path, environ: dict[str, str]) -> str:
    """What is printed by the blocks, one after the other; those that stay stay to the end."""
    if not blocks:
        return ""
    for start, said in STAYS.items():
        if blocks[0].startswith(start):
            with staying(blocks[0], said, cwd=folder, env=environ):
                return _run(blocks[1:], folder, environ)
    command = ["bash", "-e", "-c", blocks[0]]
    found = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout + _run(blocks[1:], folder, environ)


@pytest.mark.parametrize("text", [t for t in TOLD if not any(wrong in t for wrong in WRONG)])
def test_every_statement_of_the_commands_is_one_that_is_answered(text: str, tmp_path: Path) -> None:
    own = tmp_path / "visits.toml"
    own.write_text(re.findall(r"(?s)cat > visits.toml <<'END'\n(.*?)END\n", OWN)[0])
    weekly = adult_domain().with_name("flights-domain.json")
    name = re.findall(r"FROM (\w+)", text)[0]
    domains = {"adult": adult_domain(), "flights": weekly, "visits": own}
    assert parse_statement(text, load_domain(domains[name]), dataset=name)


def test_statements_are_told_on_several_pages() -> None:
    assert len(TOLD) > 15
