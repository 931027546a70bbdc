"""The client by itself: what its wheel holds, and that it asks from a fresh environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.test_reached import modules, reached

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "deploy" / "client"
MOST_BYTES = 15_000_000
ENTRIES = ["qserver.client", "qserver.client.dbapi", "qserver.client.alchemy.dialect"]
ASKS = """
import sys

import nanoarrow

import qserver
from qserver.client import dbapi

url = sys.argv[1]
table = qserver.Client(url).sql("SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex WITHIN 300")
print(qserver.__file__, qserver.__version__)
print([row["sex"] for row in nanoarrow.ArrayStream(table).read_all().to_pylist()])
with dbapi.connect(url) as connection:
    print(connection.execute("SELECT COUNT(*) AS n FROM adult WITHIN 3000").fetchone()[0] > 0)
print(sorted({"numpy", "pyarrow", "pydantic", "sqlglot"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made by its builder from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    [found] = folder.glob("qserver_client-*-py3-none-any.whl")
    return found


@pytest.mark.slow
def test_it_has_what_the_client_imports_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        held = {name: archive.read(name) for name in names}
    wanted = [modules()[name].relative_to(ROOT) for name in reached(ENTRIES)]
    texts = {f"qserver_client/{path}": (ROOT / path).read_bytes() for path in wanted}
    assert held == {
        **texts,
        "qserver_client/qserver/py.typed": b"",
        "qserver_client.pth": b"qserver_client\n",
    }


def test_it_shares_no_file_with_the_whole_package(wheel: Path) -> None:
    """So either can be removed, and no upgrade of one changes the other."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    own = {top for top in tops if not top.endswith(".dist-info")}
    assert own == {"qserver_client", "qserver_client.pth"}
    assert own & {path.name for path in ROOT.iterdir()} == set()


def test_it_needs_what_the_whole_package_does_in_the_same_versions() -> None:
    whole, alone = _project(ROOT)["project"], _project(CLIENT)["project"]
    extras = whole["optional-dependencies"]
    assert set(alone["dependencies"]) <= {*whole["dependencies"], *extras["test"]}
    assert alone["optional-dependencies"] == {"sqlalchemy": extras["sqlalchemy"]}
    for same in ("entry-points", "requires-python", "license"):
        assert alone[same] == whole[same]


@pytest.mark.slow
def test_a_fresh_environment_with_it_asks_a_server_and_stays_small(
    wheel: Path, demo_url: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index"]
    subprocess.run([*command, "--no-deps", str(wheel)], check=True, capture_output=True)
    [site] = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    [own] = metadata.distributions(name="qserver-client", path=[str(site)])
    needed = [need for need in own.requires or () if "extra ==" not in need]
    assert len(needed) == 2
    for need in needed:
        _copy(re.split(r"[^a-z0-9-]", need)[0], site)
    asked = subprocess.run(
        [python, "-I", "-c", ASKS, demo_url], cwd=tmp_path, check=True, capture_output=True
    )
    place, groups, answered, heavy = asked.stdout.decode().splitlines()
    assert place == f"{site / 'qserver_client' / 'qserver' / '__init__.py'} {own.version}"
    assert groups == "['Female', 'Male', None]"
    assert (answered, heavy) == ("True", "[]")
    held = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert 1_000_000 < held < MOST_BYTES


def _project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def _copy(name: str, site: Path) -> None:
    """Install what is installed here as it is, so that no test needs a network."""
    found = metadata.distribution(name)
    assert not [need for need in found.requires or () if "extra ==" not in need]
    for file in found.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(found.locate_file(file)), site / file)
