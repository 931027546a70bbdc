"""A dashboard in a BI tool: Superset's own pages, drawn from the PostgreSQL port of the demo.

`QSERVER_SUPERSET` names the python of an environment with `apache-superset` and `psycopg2-binary`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from qserver.client import Client
from tests.browser.superset_board import BY
from tests.browser.test_gallery import MOST_BYTES
from tests.cli.local.running_program import TIMEOUT_S, running, started

NAME = "QSERVER_SUPERSET"
PROGRAM = Path(__file__).parent / "superset_board.py"
OPTIONS = "-c%20qserver.intervals%3Dcolumns%20-c%20qserver.within%3D100"
CONFIG = """
SECRET_KEY = "{key}"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
PREVENT_UNSAFE_DB_CONNECTIONS = False
AUTH_ROLE_PUBLIC = "Admin"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
RATELIMIT_ENABLED = False
"""


@contextlib.contextmanager
def superset(folder: Path, python: str, address: str) -> Iterator[str]:
    """Superset with the dashboard; its address."""
    folder.mkdir()
    (folder / "superset_config.py").write_text(CONFIG.format(key="k" * 40, folder=folder))
    places = {"PYTHONPATH": str(folder), "SUPERSET_HOME": str(folder)}
    with started(folder, [python, str(PROGRAM), address], **places) as program:
        program.read_until("the board is at ")
        program.read_until("?standalone=3")
        yield program.printed.split("the board is at ")[1].strip()


def test_a_dashboard_of_superset_shows_numbers_with_their_intervals(
    chromium: Browser, pictures: Path, tmp_path: Path
) -> None:
    """They were bought beforehand: opening the dashboard spends nothing."""
    python = os.environ.get(NAME, "")
    if not Path(python).is_file():
        pytest.skip(f"{NAME} names no python with apache-superset: its dashboard is NOT TESTED.")
    state = tmp_path / "state"
    asked = ("demo", "--weekly", "--port", "0", "--postgres", "0", "--state", str(state))
    with running(state, *asked) as program:
        program.read_until("-U qserver qserver -c 'SET")
        port = re.findall(r"psql -h \S+ -p (\d+) -U", program.printed)[0]
        client = Client(program.url)
        bought = {by: client.sql(f"{text} WITHIN 100") for by, text in BY.items()}
        spent = client.budget("flights").spent
        address = f"postgresql+psycopg2://ada:x@127.0.0.1:{port}/qserver?options={OPTIONS}"
        with superset(tmp_path / "superset", python, address) as board:
            context = chromium.new_context(viewport={"width": 1000, "height": 640})
            context.set_default_timeout(120_000)
            page = context.new_page()
            page.goto(board)
            [first, *_] = bought["origin"].records()
            row = page.get_by_role("row").filter(has_text=str(first["origin"]))
            expect(row).to_be_visible(timeout=120_000)
            for column in ("n", "n_low", "n_high"):
                expect(row).to_contain_text(f"{first[column]:,.0f}")
            expect(page.locator("canvas")).to_have_count(1)
            expect(page.get_by_text("Data error")).to_have_count(0)
            page.mouse.move(0, 0)
            picture = pictures / "board.jpg"
            page.screenshot(path=picture, type="jpeg", quality=55)
            context.close()
        assert 0 < picture.stat().st_size <= MOST_BYTES
        assert client.budget("flights").spent == spent
        program.process.terminate()
        program.process.wait(timeout=TIMEOUT_S)
