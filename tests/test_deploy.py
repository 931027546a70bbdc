"""The files under deploy/ fit the program: its settings, its limits, its programs; no secrets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.site.pages.made import made
from qserver.api import errors
from qserver.config import Settings

pytestmark = [
    pytest.mark.promise(
        "Hostile input",
        "nothing secret has a default",
    ),
]

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
BUILT = DEPLOY / "site" / "build"
# Tests that import a module from there leave its bytecode, and builders of the site leave it.
FILES = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.is_file() and path.suffix != ".pyc" and not path.is_relative_to(BUILT)
)
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
# Names that only the files under deploy/ use, not settings of the program.
OF_COMPOSE = {"DOMAIN", "UPSTREAM", "PRIVATE_DATA", "ACL_FILE"}
OF_CLIENTS = {"URL", "TOKEN", "SEED"}
UNITS = {path.stem: path.read_text() for path in (DEPLOY / "systemd").glob("*.service")}


def grace_s(text: str) -> int:
    return {"40s": 40, "1m": 60}[text]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    known = {name.removeprefix("QSERVER_") for name in Settings().to_environment()}
    named = set(re.findall(r"QSERVER_([A-Z_]+)\b", path.read_text()))
    assert named <= known | OF_COMPOSE | OF_CLIENTS


@pytest.mark.parametrize("name", ["compose.yaml", "Containerfile", "Caddyfile"])
def test_no_variable_has_a_default(name: str) -> None:
    text = (DEPLOY / name).read_text()
    assert not re.search(r"\$\{[A-Z_]+:?-", text)
    assert not re.search(r"(?i)(password|secret|token)\s*[:=]\s*[A-Za-z0-9]", text)


def test_compose_takes_every_secret_from_outside_or_does_not_start() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for variable in re.findall(r"\$\{([^}]*)\}", text):
        assert ":?" in variable, variable


def test_only_the_proxy_is_reached_from_outside() -> None:
    services = COMPOSE["services"]
    assert [name for name, found in services.items() if "ports" in found] == ["proxy"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert "inside" not in services["proxy"]["networks"]


def test_only_the_worker_sees_private_data_and_each_has_its_user() -> None:
    services = COMPOSE["services"]
    mounts = {name: str(found.get("volumes", "")) for name, found in services.items()}
    assert [name for name, text in mounts.items() if "PRIVATE_DATA" in text] == ["worker"]
    assert [name for name, text in mounts.items() if "qserver-worker" in text] == ["worker"]
    users = [services[name]["user"] for name in ("store", "http", "worker")]
    assert len(set(users)) == 3
    assert all(found["read_only"] and found["cap_drop"] == ["ALL"] for found in services.values())


def test_each_image_runs_under_the_user_that_compose_gives_its_side() -> None:
    stages = re.split(r"(?m)^FROM ", (DEPLOY / "Containerfile").read_text())
    users = {
        side: re.findall(r"(?m)^USER (.*)$", stage)
        for stage in stages
        for side in re.findall(r"\Abase AS (\w+)", stage)
    }
    assert users == {side: [COMPOSE["services"][side]["user"]] for side in ("worker", "http")}
    assert list(users)[-1] == "http"


def test_a_stop_leaves_time_for_the_questions_at_hand() -> None:
    needed = Settings().wait_s + 5
    assert grace_s(COMPOSE["services"]["http"]["stop_grace_period"]) > needed
    found = re.search(r"TimeoutStopSec=([0-9]+)", UNITS["qserver-http"])
    assert found
    assert int(found[1]) > needed
    assert "KillMode=mixed" in UNITS["qserver-http"]


def test_the_units_start_programs_of_the_package() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, text in UNITS.items():
        program = re.findall(r"(?m)^ExecStart=/opt/qserver/bin/([a-z-]+)", text)[0]
        assert program in {*scripts, "gunicorn"}, name
    assert re.search(r"(?m)^User=qserver-worker$", UNITS["qserver-worker"])
    assert re.search(r"(?m)^User=qserver$", UNITS["qserver-http"])


def test_the_proxies_take_what_the_server_takes_and_wait_as_long() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text()
    assert Settings().max_body_bytes == 1 << 20
    assert "client_max_body_size 1m;" in nginx
    waits = re.findall(r"proxy_read_timeout ([0-9]+)s", nginx)
    caddy = (DEPLOY / "Caddyfile").read_text()
    waits += re.findall(r"response_header_timeout ([0-9]+)s", caddy)
    assert len(waits) == 2
    assert all(int(wait) > Settings().wait_s + 5 for wait in waits)
    assert "Strict-Transport-Security" in nginx
    assert "Strict-Transport-Security" in caddy
    assert "proxy_next_upstream off" in nginx


def test_every_location_of_nginx_follows_the_rule_by_dataset() -> None:
    """Its processes take the place of the one that nginx.conf names, in one block alone."""
    upstream = re.compile(r"upstream (\w+) \{([^}]*)\}")
    alone, shared = ((DEPLOY / f"nginx{part}.conf").read_text() for part in ("", "-by-dataset"))
    ((name, servers),) = upstream.findall(alone)
    assert "127.0.0.1:8000;" in servers
    assert [(found, text.count(" server ")) for found, text in upstream.findall(shared)] == [
        (name, 4)
    ]
    assert f"delete `upstream {name}`" in shared
    locations = re.findall(r"location [^{]*\{([^}]*)\}", alone)
    assert len(locations) == 2
    assert all(f"proxy_pass http://{name};" in one for one in locations)


def test_the_lock_names_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(re.findall(r"(?m)^([a-z0-9-]+)==", (DEPLOY / "requirements.lock").read_text()))
    named = [*project["dependencies"]]
    for extra in ("otel", "sso"):  # what values of the chart turn on
        named += project["optional-dependencies"][extra]
    assert {re.split(r"[\[><=]", text)[0] for text in named} <= locked


def test_every_documented_metric_exists_and_every_metric_is_documented() -> None:
    text = made()["signals.md"]
    documented = set(re.findall(r"`(qserver_[a-z_]+)`", text))
    source = (ROOT / "qserver" / "cli" / "local" / "exporter.py").read_text()
    names = {f"qserver_{n}" for n in re.findall(r'\("([a-z_]+)", "[A-Z]', source)}
    names |= set(re.findall(r'"(qserver_[a-z_]+)"', source))
    for counted in ("api/metrics.py", "service/datasets.py"):
        names |= set(re.findall(r'"(qserver_[a-z_]+)"', (ROOT / "qserver" / counted).read_text()))
    assert names == {name.removesuffix("_total") for name in documented}
    assert len(names) == 12


def test_operations_names_every_reason_for_not_being_ready() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    for code in errors.STORE_CODES:
        if code not in ("fenced", "stale_version"):
            assert f"`{code}`" in text, code
