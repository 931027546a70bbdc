"""The README: its links lead somewhere, and its question and commands are ones that work."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

from qserver.cli.conditions import where_document
from qserver.cli.console import Console
from qserver.cli.local.demo import adult_domain
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_loading import load_domain

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOMAIN = load_domain(adult_domain())


def test_every_link_to_a_file_leads_to_one() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) >= 4
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_two_commands_are_there_once_each_as_ci_looks_for_them() -> None:
    for end in ("qserver demo", "pytest"):
        assert len(re.findall(rf"(?m)^python3 -m venv .*&& .*{end}$", README)) == 1


def test_every_stage_is_named_as_pytest_knows_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = project["tool"]["pytest"]["ini_options"]["markers"]
    stages = re.findall(r"pytest(?: [\w/]+)? -m (\w+)", README)
    assert {"slow", "engines", "tools", "spark"} == set(stages)
    assert set(stages) <= {marker.split(":")[0] for marker in markers}


def test_the_browser_tests_have_one_command_and_one_apt_line() -> None:
    assert len(re.findall(r"(?m)^python3 -m venv .*&& .*pytest tests/browser$", README)) == 1
    apt = re.findall(r"apt-get install [^`]*chromium", README)
    assert len(apt) == 1
    assert apt[0] in (ROOT / "tests/browser" / "conftest.py").read_text(encoding="utf-8")


def test_the_curl_and_the_command_line_ask_one_and_the_same_question() -> None:
    body = json.loads(re.findall(r"-d '(\{.*\})'", README)[0])
    line = re.findall(r"(?m)^\.venv/bin/qserver (query .*)$", README)[0]
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    args = build_parser(runtime).parse_args(shlex.split(line))
    typed = parse_query({"where": where_document(args.where)}, DOMAIN)
    assert typed == parse_query(body["query"], DOMAIN)
    assert (args.length, args.confidence) == (body["length"], body["confidence"])
