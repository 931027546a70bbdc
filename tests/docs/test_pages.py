"""docs/: links lead somewhere, commands exist, figures show what they say, a site can be built."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from deploy.site.pages.command_line import leaves
from deploy.site.pages.made import made
from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from tests.docs.figures import figures
from worker.parser import build_parser as worker_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHANGELOG = ROOT / "CHANGELOG.md"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WRITTEN = {
    page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md"))
}
PAGES = WRITTEN | {name: text for name, text in made().items() if name.endswith(".md")}
SHOWN = sorted([*DOCS.glob("figures/*.svg"), DOCS / "tracing.svg"])
_MOST_OF_A_PICTURE = 60_000
_KEPT_TABLE = r"(?s)<!-- table: \w+ -->.*?<!-- end: \w+ -->"
"""What a benchmark puts on its page."""
_MOST_BYTES = 240_000
"""Of all that is written by hand, so that somebody reads it."""
_MOST_KB: dict[str, int] = {
    "README.md": 6, "CONTRIBUTING.md": 4,
    "start.md": 5, "own-table.md": 6, "weeks.md": 6, "concepts.md": 16,
    "sql.md": 20, "python.md": 8, "domain.md": 10, "sources.md": 10, "postgres.md": 6,
    "accounts.md": 5, "operations.md": 18, "promise.md": 4, "limits.md": 8, "guarantee.md": 40,
    "zcdp.md": 7,
    "comparison.md benchmarks.md": 10, "architecture.md": 10, "protocol.md": 14, "paper.md": 8,
}  # fmt: skip
"""Of a page, or of two together; a page of how-to has 2."""


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).strip() for title in titles]
    return {title.replace(" ", "-") for title in plain}


def _broken(text: str, *, at: Path) -> list[str]:
    """Links of a page at `at` that lead to no file, no page that is made, or no heading."""
    found = []
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text):
        path = (at.parent / target).resolve() if target else at
        led_to = made().get(path.name) if path.parent == DOCS else None
        if target == "":
            led_to = text
        elif led_to is None and path.is_file():
            led_to = path.read_text("utf-8") if anchor else ""
        if led_to is None or (anchor and anchor not in _anchors(led_to)):
            found.append(f"{target}#{anchor}")
    return found


def test_what_is_written_by_hand_can_be_read_in_a_day() -> None:
    named = (README, CONTRIBUTING, CHANGELOG.read_text("utf-8"))
    by_hand = (re.sub(_KEPT_TABLE, "", text) for text in (*WRITTEN.values(), *named))
    assert sum(len(text.encode()) for text in by_hand) <= _MOST_BYTES


def test_no_page_outgrows_its_place_in_the_table_of_contents() -> None:
    of = {"README.md": README, "CONTRIBUTING.md": CONTRIBUTING, **WRITTEN}
    size = {name: len(re.sub(_KEPT_TABLE, "", text).encode()) for name, text in of.items()}
    most = _MOST_KB | {name: 2 for name in size if name.startswith("howto/")}
    found = {names: sum(size[name] for name in names.split()) for names in most}
    assert {names: n for names, n in found.items() if n > most[names] * 1024} == {}


def test_the_glossary_is_short() -> None:
    rows = re.findall(r"(?m)^\| ([^|]+) \| [^|]+ \|$", CONTRIBUTING.split("## Words")[1])
    assert 20 < sum(len(row.split(",")) for row in rows[1:]) <= 40


def test_what_is_made_lies_in_no_checkout() -> None:
    assert [name for name in made() if (DOCS / name).exists()] == []


def test_every_figure_is_shown_by_a_page() -> None:
    text = "".join(WRITTEN.values())
    names = [path.relative_to(DOCS).as_posix() for path in SHOWN]
    assert [name for name in names if f"]({name})" not in text] == []


def test_twelve_pictures_are_small_and_each_is_in_the_gallery() -> None:
    """`tests/browser/test_gallery.py` takes them."""
    pictures = sorted((DOCS / "pictures").iterdir())
    assert len(pictures) == 12
    for path in pictures:
        assert f"](pictures/{path.name})" in WRITTEN["gallery.md"]
        assert path.stat().st_size <= _MOST_OF_A_PICTURE


def test_the_figures_show_what_would_be_drawn_today_to_a_pixel() -> None:
    """Of results that are kept, and of the mathematics; words and colours may differ."""
    drawn = figures()
    assert set(drawn) == {path.name for path in DOCS.glob("figures/*.svg")}
    for name, text in drawn.items():
        today, kept = _places(text), _places((DOCS / "figures" / name).read_text("utf-8"))
        assert len(today) == len(kept) > 1, f"{name}: run python -m tests.docs"
        assert today == pytest.approx(kept, abs=1), f"{name}: run python -m tests.docs"


def _places(figure: str) -> list[float]:
    """Where its lines go, how far its bars reach, and where its points lie."""
    found = re.findall(r'<(?:path|rect|circle)[^>]* (?:d|width|cx)="([^"]*)"', figure)
    return [float(number) for text in found for number in re.findall(r"-?[\d.]+", text)]


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_every_figure_is_well_formed_and_says_what_it_shows(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    found = {child.tag.rpartition("}")[2]: child.text for child in root.iter()}
    assert found["title"]
    assert found["desc"]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    assert _broken(PAGES[name], at=DOCS / name) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    text = "# Here\n[a](no.md) [b](http.md#no) [c](concepts.md#no) [d](#no) [e](../docs/cli.md/x)"
    fine = "[f](http.md#models) [g](#here) [h](domain.schema.json) [i](../README.md) [j](cli.md)"
    found = _broken(f"{text} {fine}", at=DOCS / "page.md")
    assert found == ["no.md#", "http.md#no", "concepts.md#no", "#no", "../docs/cli.md/x#"]


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_a_page_names_is_there(name: str) -> None:
    named = re.findall(r"`((?:qserver|worker|tests|deploy)/[\w./-]+)`", PAGES[name])
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_stands_in_the_list_of_pages_and_of_the_site() -> None:
    index = WRITTEN["index.md"]
    site = (ROOT / "deploy" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    names = [name for name in PAGES if name != "index.md"]
    assert [name for name in names if f"]({name}" not in index] == []
    assert [name for name in names if f": {name}\n" not in site] == []


def test_every_command_of_the_pages_is_one_that_the_programs_take() -> None:
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    programs = {"qserver": build_parser(runtime), "qserver-worker": worker_parser()}
    lines = [
        line.split("#")[0].strip()
        for name, text in {**PAGES, "README.md": README}.items()
        if name != "cli.md"
        for block in re.findall(r"(?ms)^```sh\n(.*?)^```", text)
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
    programs = (build_parser(runtime), worker_parser())
    names = [leaf.parser.prog for program in programs for leaf in leaves(program)]
    assert len(names) >= 20
    assert [name for name in names if f"### `{name}`" not in PAGES["cli.md"]] == []


@pytest.mark.slow
def test_the_pages_build_a_site(tmp_path: Path) -> None:
    """A warning of the builder ends it, by `strict`."""
    config = str(ROOT / "deploy" / "site" / "mkdocs.yml")
    build(load_config(config, strict=True, site_dir=str(tmp_path / "site")))
    site = tmp_path / "site"
    pages = {p.relative_to(site).as_posix(): p.read_text("utf-8") for p in site.rglob("*.html")}
    assert "<table" in pages["concepts.html"]
    assert [name for name, text in pages.items() if "```" in text] == []
    assert "plan_p99_ms" in pages["results.html"]
    assert "selected_from" in pages["python-api.html"]
    for name in PAGES:
        title = re.search(r"(?m)^# (.+)$", PAGES[name])
        assert title is not None
        assert title[1] in pages[name.replace(".md", ".html")]
    assert json.loads((tmp_path / "site" / "domain.schema.json").read_text("utf-8"))["$id"]


@pytest.mark.slow
def test_the_site_of_each_version_is_kept_beside_the_others(tmp_path: Path) -> None:
    """By the commands of `make versions`, in a repository of its own."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = os.environ | {"PATH": scripts, "SITE_DIR": str(tmp_path / "site")}

    def run(*words: str) -> str:
        found = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        return found.stdout

    run("git", "init", "-q")
    run("git", "config", "user.name", "a")
    run("git", "config", "user.email", "a@example.org")
    run("git", "commit", "-q", "--allow-empty", "-m", "begin")
    commands = re.findall(r"(?m)^\t(mike (?:deploy|set-default) .*)$", makefile)
    for version in ("0.1", "0.2"):
        for command in commands:
            filled = command.replace("$(SITE)", f"-F {ROOT}/deploy/site/mkdocs.yml")
            run(*shlex.split(filled.replace("$(VERSION)", version)))
    versions = json.loads(run("git", "show", "gh-pages:versions.json"))
    assert [(v["version"], v["aliases"]) for v in versions] == [("0.2", ["latest"]), ("0.1", [])]
    for version in ("0.1", "0.2"):
        page = run("git", "show", f"gh-pages:{version}/concepts.html")
        assert '"provider": "mike"' in page
    assert run("git", "show", "gh-pages:latest") == "0.2"
    assert "latest" in run("git", "show", "gh-pages:index.html")
