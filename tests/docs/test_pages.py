"""docs/: what is made from the code is current, links lead somewhere, a site can be built."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from tests.docs.command_reference import leaves
from tests.docs.pages import pages
from worker.parser import build_parser as worker_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).strip() for title in titles]
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("name", sorted(pages()))
def test_what_is_made_from_the_code_is_what_stands_in_docs(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name], "run python -m tests.docs"


@pytest.mark.parametrize("name", [name for name in pages() if name.endswith(".svg")])
def test_every_picture_is_well_formed_and_says_what_it_shows(name: str) -> None:
    root = ElementTree.fromstring(pages()[name])
    found = {child.tag.rpartition("}")[2] for child in root}
    assert {"title", "desc"} <= found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(path), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:qserver|worker|tests|deploy)/[\w./-]+)`", page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_stands_in_the_list_of_pages_and_of_the_site() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    site = (ROOT / "deploy" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    names = [page.name for page in PAGES if page.name != "index.md"]
    assert [name for name in names if f"]({name})" not in index] == []
    assert [name for name in names if f": {name}\n" not in site] == []


def test_every_command_of_the_pages_is_one_that_the_programs_take() -> None:
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    programs = {"qserver": build_parser(runtime), "qserver-worker": worker_parser()}
    lines = [
        line.split("#")[0].strip()
        for page in (*PAGES, ROOT / "README.md")
        if page.name != "cli.md"
        for block in re.findall(r"(?ms)^```sh\n(.*?)^```", page.read_text(encoding="utf-8"))
        for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [re.match(r"(?:\w+=\S+ )*(?:\S*/)?(qserver\S*) (.+)$", line) for line in lines]
    asked = [match for match in found if match is not None]
    assert len(asked) >= 15
    for match in asked:
        programs[match[1]].parse_args(_filled(shlex.split(match[2])))


def _filled(words: list[str]) -> list[str]:
    """Words a reader puts something in for, EPSILON or N, with a number that fits."""
    return ["1" if word in {"EPSILON", "N", "E", "L"} else word for word in words]


def test_the_reference_of_commands_has_every_command_of_both_programs() -> None:
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    programs = (build_parser(runtime), worker_parser())
    names = [leaf.parser.prog for program in programs for leaf in leaves(program)]
    assert len(names) >= 20
    assert [name for name in names if f"### `{name}`" not in text] == []


@pytest.mark.slow
def test_the_pages_build_a_site(tmp_path: Path) -> None:
    config = ROOT / "deploy" / "site" / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(config)]
    run = subprocess.run([*command, "-d", str(tmp_path / "site")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "<table" in (tmp_path / "site" / "concepts.html").read_text(encoding="utf-8")
    pages = {page.stem: page.read_text("utf-8") for page in (tmp_path / "site").glob("*.html")}
    assert [name for name, text in pages.items() if "```" in text] == []
    assert "plan_p99_ms" in (tmp_path / "site" / "results.html").read_text(encoding="utf-8")
