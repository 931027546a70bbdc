"""The chart of deploy/chart, rendered by helm and held against Kubernetes' own schemas.

`python -m tests.bring_helm FOLDER` brings helm where it is not installed.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from qserver.config import Settings
from worker.parser import build_parser as worker_parser

pytestmark = [
    pytest.mark.chart,
    pytest.mark.promise(
        "Operations",
        "the chart's server reaches neither the worker nor a source of data, and no container runs "
        "as root, writes to its image or has a token of the cluster",
    ),
]

CHART = Path(__file__).parents[1] / "deploy" / "chart"
HERE = [{"ipBlock": {"cidr": "10.0.0.5/32"}}]
LEAST: dict[str, Any] = {
    "images": {"server": "r/qserver:1", "worker": "r/qserver-worker:1"},
    "store": {"allowTo": HERE},
    "worker": {"data": {"claim": "private"}},
}
MOST: dict[str, Any] = {
    **LEAST,
    "store": {
        "allowTo": HERE,
        "ports": [6379, 26379],
        "tls": {"serverSecret": "s-tls", "workerSecret": "w-tls"},
        "replicas": 2,
    },
    "server": {"allowFrom": [{"podSelector": {}}], "env": {"QSERVER_LOG_REQUESTS": 1}},
    "postgres": {"enabled": True, "tlsSecret": "pg", "allowFrom": [{"podSelector": {}}]},
    "oidc": {
        "issuer": "https://id.example.org",
        "clientId": "q",
        "clientSecret": {"name": "oidc", "key": "s"},
        "allowTo": HERE,
    },
    "worker": {
        "data": {"claim": "private", "subPath": "a/b"},
        "witness": {"claim": "elsewhere"},
        "allowTo": [{"ipBlock": {"cidr": "10.2.0.0/16"}}],
        "allowPorts": [5432],
    },
    "metrics": {"serviceMonitor": {"enabled": True}, "allowFrom": [{"podSelector": {}}]},
    "owner": {"backups": {"claim": "tapes"}},
    "otel": {"endpoint": "http://collector:4318", "allowTo": HERE},
    "ingress": {"enabled": True, "host": "q.example.org", "tlsSecret": "cert"},
}
Documents = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm")
    assert program, "helm is not installed: python -m tests.bring_helm FOLDER, and FOLDER on PATH"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def rendered(folder: Path, values: dict[str, Any], *, chart: Path = CHART) -> Documents:
    """The documents by kind and name."""
    given = folder / "values.json"
    given.write_text(json.dumps(values))
    found = helm("template", "q", str(chart), "-f", str(given))
    assert found.returncode == 0, found.stderr
    documents = (d for d in yaml.safe_load_all(found.stdout) if d)
    return {f"{d['kind']} {d['metadata']['name']}": d for d in documents}


def pods(documents: Documents) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in documents.items():
        if "template" in one.get("spec", {}):
            yield name, one["spec"]["template"]["spec"]


def faults_of(documents: Documents) -> list[str]:
    """What a pod of Kubernetes' level `restricted` must not lack, and more."""
    found = []
    for name, pod in pods(documents):
        context = pod.get("securityContext", {})
        wanted: dict[str, Any] = {
            "no root": context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 10_000,
            "seccomp": context.get("seccompProfile") == {"type": "RuntimeDefault"},
            "no token": pod.get("automountServiceAccountToken") is False,
            "volumes opened once": context.get("fsGroupChangePolicy") == "OnRootMismatch",
            "no variables of services": pod.get("enableServiceLinks") is False,
        }
        for one in pod["containers"]:
            said = one.get("securityContext", {})
            mounts = {m["mountPath"] for m in one.get("volumeMounts", [])}
            wanted |= {
                f"{one['name']}: read-only": said.get("readOnlyRootFilesystem") is True,
                f"{one['name']}: /tmp": "/tmp" in mounts,
                f"{one['name']}: no more rights": said.get("allowPrivilegeEscalation") is False,
                f"{one['name']}: capabilities": said.get("capabilities") == {"drop": ["ALL"]},
                f"{one['name']}: memory": "memory" in one["resources"]["limits"],
            }
        found += [f"{name}: {what}" for what, holds in wanted.items() if not holds]
    worker = documents["StatefulSet q-worker"]["spec"]["template"]["spec"]["containers"][0]
    if worker.get("command") != ["qserver-worker", "run", "--wait"]:
        found.append("the worker does not wait for its first dataset")
    http = documents["Deployment q-server"]["spec"]["template"]["spec"]["containers"][0]
    probes = {k: one["httpGet"]["path"] for k, one in http.items() if k.endswith("Probe")}
    if probes != {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }:
        found.append(f"probes: {probes}")
    for side in ("server", "worker"):
        policy = documents.get(f"NetworkPolicy q-{side}", {}).get("spec", {})
        if set(policy.get("policyTypes", [])) != {"Ingress", "Egress"}:
            found.append(f"policy of the {side}")
    return found


@pytest.mark.parametrize("values", [LEAST, MOST])
def test_helm_finds_nothing_to_say(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.json").write_text(json.dumps(values))
    found = helm("lint", "--strict", str(CHART), "-f", str(tmp_path / "values.json"))
    assert found.returncode == 0, found.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in found.stdout


@pytest.mark.parametrize("values", [LEAST, MOST])
@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_each_document_is_one_of_kubernetes(
    values: dict[str, Any], version: str, tmp_path: Path
) -> None:
    documents = rendered(tmp_path, values)
    others = [name for name in documents if name.startswith("ServiceMonitor")]
    for name in others:  # the operator's, whose schema is not Kubernetes'
        assert documents.pop(name)["spec"]["endpoints"][0]["port"] == "metrics"
    assert len(documents) >= 10
    for one in documents.values():
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("values", [LEAST, MOST])
def test_pods_are_locked_down(values: dict[str, Any], tmp_path: Path) -> None:
    assert faults_of(rendered(tmp_path, values)) == []


@pytest.mark.parametrize(
    ("file", "gone", "fault"),
    [
        ("_helpers.tpl", "runAsNonRoot: true\n", "no root"),
        ("_helpers.tpl", "seccompProfile: {type: RuntimeDefault}\n", "seccomp"),
        ("_helpers.tpl", "readOnlyRootFilesystem: true\n", "read-only"),
        ("_helpers.tpl", "capabilities: {drop: [ALL]}\n", "capabilities"),
        ("_helpers.tpl", "enableServiceLinks: false\n", "variables"),
        ("server.yaml", "httpGet: {path: /readyz, port: http}", "probes"),
        ("worker.yaml", "          command: [qserver-worker, run, --wait]\n", "first dataset"),
        ("network.yaml", "  policyTypes: [Ingress, Egress]\n", "policy"),
    ],
)
def test_what_is_taken_out_of_the_chart_is_missed(
    file: str, gone: str, fault: str, tmp_path: Path
) -> None:
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    place = copy / "templates" / file
    text = place.read_text()
    assert gone in text
    other = "httpGet: {path: /, port: http}" if "httpGet" in gone else ""
    place.write_text(text.replace(gone, other))
    assert any(fault in one for one in faults_of(rendered(tmp_path, LEAST, chart=copy)))


def test_the_server_can_reach_neither_the_worker_nor_the_data(tmp_path: Path) -> None:
    documents = rendered(tmp_path, MOST)
    egress = {s: documents[f"NetworkPolicy q-{s}"]["spec"]["egress"] for s in ("server", "worker")}
    ports = {s: [[p["port"] for p in r["ports"]] for r in rules] for s, rules in egress.items()}
    # Names, the store, the collector, and of each one more: the provider, and the sources.
    assert ports == {
        "server": [[53, 53], [6379, 26379], [4318], [443]],
        "worker": [[53, 53], [6379, 26379], [4318], [5432]],
    }
    assert all(rule.get("to") for rules in egress.values() for rule in rules)
    assert documents["NetworkPolicy q-worker"]["spec"]["ingress"] == []
    both = dict(pods(documents))
    server, worker = both["Deployment q-server"], both["StatefulSet q-worker"]
    assert "persistentVolumeClaim" not in json.dumps(server)
    assert server["serviceAccountName"] != worker["serviceAccountName"]
    secrets = {name: set(_secrets(pod)) for name, pod in both.items()}
    assert secrets["Deployment q-server"] == {"qserver-store-server", "oidc", "s-tls", "pg"}
    assert not secrets["Deployment q-server"] & secrets["StatefulSet q-worker"]
    assert server["securityContext"]["runAsUser"] != worker["securityContext"]["runAsUser"]
    private = next(m for m in worker["containers"][0]["volumeMounts"] if m["name"] == "private")
    assert private["readOnly"] is True


def _secrets(plain: Any) -> Iterator[str]:
    if isinstance(plain, list):
        for one in plain:
            yield from _secrets(one)
    elif isinstance(plain, dict):
        if "secretKeyRef" in plain:
            yield plain["secretKeyRef"]["name"]
        if "secretName" in plain:
            yield plain["secretName"]
        for one in plain.values():
            yield from _secrets(one)


def test_nobody_is_let_in_who_is_not_named(tmp_path: Path) -> None:
    assert rendered(tmp_path, LEAST)["NetworkPolicy q-server"]["spec"]["ingress"] == []
    rules = rendered(tmp_path, MOST)["NetworkPolicy q-server"]["spec"]["ingress"]
    assert [rule["ports"][0]["port"] for rule in rules] == ["http", 9464, "postgres"]
    assert all(rule["from"] for rule in rules)  # an empty list would let everybody in


@pytest.mark.parametrize(("values", "n_commands"), [(LEAST, 2), (MOST, 4)])
def test_the_notes_name_containers_variables_and_commands_that_there_are(
    values: dict[str, Any], n_commands: int, tmp_path: Path
) -> None:
    (tmp_path / "values.json").write_text(json.dumps(values))
    given = ["-f", str(tmp_path / "values.json"), "--dry-run=client", "--namespace", "here"]
    found = helm("install", "q", str(CHART), *given)
    assert found.returncode == 0, found.stderr
    notes = found.stdout.partition("NOTES:\n")[2].replace("\\\n", " ").replace("$(date +%F)", "DAY")
    commands = [shlex.split(line) for line in notes.splitlines() if "kubectl -n" in line]
    assert len(commands) == n_commands
    worker = rendered(tmp_path, values)["StatefulSet q-worker"]["spec"]["template"]["spec"]
    (owner,) = (one for one in worker["containers"] if one["name"] == "owner")
    known = {e["name"] for e in owner["env"]}
    mounts = {m["mountPath"] for m in owner["volumeMounts"]}
    assert ("/srv/backups" in mounts) == (values is MOST)
    runtime = Runtime(console=Console(out=sys.stdout, err=sys.stderr), environ={})
    parsers = {"qserver": build_parser(runtime), "qserver-worker": worker_parser()}
    for command in commands:
        start, _, after = " ".join(command).partition(" -- ")
        assert start.replace(" -it", "") == "kubectl -n here exec q-worker-0 -c owner"
        words = shlex.split(command[-1]) if after.startswith("sh -c") else after.split()
        if words[0].startswith("QSERVER_REDIS_URL=$"):
            assert words[0].partition("$")[2] in known
            words = words[2:]
        assert {f"/srv/{w.split('/')[2]}" for w in words if w.startswith("/srv/")} <= mounts
        text = [w.replace("EPSILON", "1") for w in words[1:]]
        parsers[words[0]].parse_args(text)


@pytest.mark.parametrize("values", [LEAST, MOST])
def test_every_container_has_settings_that_can_be_read(
    values: dict[str, Any], tmp_path: Path
) -> None:
    for _, pod in pods(rendered(tmp_path, values)):
        for one in pod["containers"]:
            named = {e["name"]: e.get("value", "x") for e in one["env"]}
            assert len(named) == len(one["env"])
            known = {n: v for n, v in named.items() if n in Settings().to_environment()}
            assert {n for n in named if n.startswith("QSERVER_")} == set(known)
            Settings.from_environment(known)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": {"server": "", "worker": "r/w:1"}}, "images.server must name an image"),
        ({"store": {"allowTo": []}}, "store.allowTo must say where the store is"),
        ({"otel": {"endpoint": "http://c:4318"}}, "otel.allowTo must say"),
        (
            {"worker": {"data": {"claim": "c"}, "allowTo": HERE}},
            "worker.allowPorts must name the ports",
        ),
        ({"worker": {"data": {"claim": ""}}}, "worker.data.claim must name the claim"),
        ({"ingress": {"enabled": True, "host": "q.example.org"}}, "ingress.tlsSecret must name"),
        ({"server": {"env": {"QSERVER_OPEN_ACCESS": 1}}}, "QSERVER_OPEN_ACCESS"),
        ({"server": {"env": {"QSERVER_REDIS_URL": "redis://:p@h"}}}, "QSERVER_REDIS_URL"),
        ({"server": {"replica": 3}}, "replica"),
    ],
)
def test_what_is_missing_or_misspelt_is_named(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    given = tmp_path / "values.json"
    given.write_text(json.dumps({**LEAST, **change}))
    found = helm("template", "q", str(CHART), "-f", str(given))
    assert found.returncode != 0
    assert said in found.stderr
