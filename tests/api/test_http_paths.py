"""Paths, methods and bodies that are not what a route takes."""

from __future__ import annotations

import json
import socket

import pytest

from tests.api.calls import ASK, QUESTION, Caller, assert_problem, chunk
from tests.api.quiet_server import MAX_BODY_BYTES

D = "/v1/datasets/adult"


def test_a_wrong_method_says_which_are_right(caller: Caller) -> None:
    for method in ("GET", "PUT", "OPTIONS"):
        reply = caller.call(method, ASK)
        assert reply.headers["Allow"] == "POST"
        if method != "HEAD":
            assert_problem(reply, 405, "method_not_allowed")


@pytest.mark.parametrize(
    "path",
    ["/", "/nowhere", "/v1/datasets/", "/v1//datasets", "/v1/datasets/a/b/c", "/%00", "/%ff"],
)
def test_a_path_that_is_not_there_is_a_problem_without_a_redirect(
    caller: Caller, path: str
) -> None:
    assert assert_problem(caller.get(path), 404, "not_found")["kind"] == "page"


@pytest.mark.parametrize("name", ["nobody", "%20", "%ff%fe", "..", "%E2%80%A8", "x" * 3000])
def test_a_dataset_of_any_name_that_is_not_there_is_not_found(caller: Caller, name: str) -> None:
    assert assert_problem(caller.get(f"/v1/datasets/{name}"), 404, "not_found")["kind"] == "dataset"


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": ""},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_plain_json_is_refused_by_its_type(
    caller: Caller, headers: dict[str, str]
) -> None:
    assert_problem(caller.post(ASK, QUESTION, headers), 415, "unsupported_media_type")


def test_a_body_of_just_the_limit_is_taken(caller: Caller) -> None:
    body = b'{"query": {"where": {}}, "length": 100, "confidence": 0.95}'
    assert caller.send(ASK, body.ljust(MAX_BODY_BYTES)).status == 200


def test_a_body_in_chunks_is_taken_up_to_just_the_limit(caller: Caller) -> None:
    body = json.dumps(QUESTION).encode()
    assert caller.send_chunks(ASK, chunk(body.ljust(MAX_BODY_BYTES))).status == 200
    reply = caller.send_chunks(ASK, chunk(body.ljust(MAX_BODY_BYTES + 1)))
    assert_problem(reply, 413, "body_too_large")


def test_a_client_that_names_no_sane_host_gets_no_failure(caller: Caller) -> None:
    for host in ("", "a b", "[::", "a:99999", "\xff", "<>"):
        with socket.create_connection((caller.host, caller.port), timeout=20) as raw:
            head = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            raw.sendall(head.encode("latin-1"))
            status = int(raw.makefile("rb").readline().split()[1])
        assert status < 500
