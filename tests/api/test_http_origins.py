"""Pages of other origins get nothing: no CORS, no framing, no embedding, no guessing of types."""

from __future__ import annotations

import pytest

from tests.api.calls import ASK, QUESTION, Caller, Reply, assert_problem

pytestmark = [
    pytest.mark.promise(
        "Hostile input",
        "pages of other origins get nothing: no CORS, no framing, no sniffing",
    ),
]

ELSEWHERE = {"Origin": "https://elsewhere.example"}
PREFLIGHT = {
    **ELSEWHERE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}


def replies(caller: Caller) -> list[Reply]:
    """An answer, the same from kept bytes, a refusal, a page, and what has no route."""
    return [
        caller.post(ASK, QUESTION, ELSEWHERE),
        caller.post(ASK, QUESTION, ELSEWHERE),
        caller.post(ASK, {}, ELSEWHERE),
        caller.get("/docs", ELSEWHERE),
        caller.get("/nowhere", ELSEWHERE),
    ]


def test_no_response_lets_another_origin_read_it(caller: Caller) -> None:
    for reply in replies(caller):
        names = {name.lower() for name in reply.headers}
        assert not any(name.startswith("access-control-") for name in names)
        assert "set-cookie" not in names


def test_a_preflight_is_refused(caller: Caller) -> None:
    reply = caller.call("OPTIONS", ASK, headers=PREFLIGHT)
    assert_problem(reply, 405, "method_not_allowed")
    assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ],
)
def test_every_response_has_the_header(caller: Caller, name: str, value: str) -> None:
    for reply in replies(caller):
        assert reply.headers.get_all(name) == [value]
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
