"""What every route replies to the byte, and the order of the fields in the OpenAPI document.

A reply that is meant to change is changed in `replies.json`, by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.api.calls import Caller, Reply
from tests.api.every_reply import successes
from tests.api.fake_service import FakeService

PINNED = Path(__file__).with_name("replies.json")
# Their last digits may depend on the processor.
COMPUTED = ("/models/audit", "/structure")
TEXTS = ("/openapi.json", "/docs")


def _shape(value: Any) -> Any:
    """The names in a JSON value, in order, without what they name."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    return [_shape(value[0])] if isinstance(value, list) and value else None


def _shown(path: str, reply: Reply) -> Any:
    return _shape(reply.document) if path.endswith(COMPUTED) else reply.body.decode()


def _replies(caller: Caller, service: FakeService) -> dict[str, Any]:
    return {
        f"{method} {path} {status}": [_shown(path, reply) for reply in found]
        for (path, method, status), found in successes(caller, service).items()
        if path not in TEXTS
    }


def _fields(caller: Caller) -> dict[str, list[str]]:
    schemas = caller.get("/openapi.json").document["components"]["schemas"]
    return {name: list(schema.get("properties", ())) for name, schema in schemas.items()}


def test_every_reply_is_what_it_was_to_the_byte(caller: Caller, service: FakeService) -> None:
    """Clients may rely on the order of members and on how numbers are written."""
    found = {"fields": _fields(caller), "replies": _replies(caller, service)}
    assert json.dumps(found, indent=1) + "\n" == PINNED.read_text()
