"""Successful responses."""

from __future__ import annotations

from flask import Response
from pydantic import BaseModel

JSON_TYPE = "application/json"


def json_reply(body: BaseModel, *, status: int = 200) -> Response:
    """The body as a JSON response."""
    return bytes_reply(body.model_dump_json().encode(), status=status)


def bytes_reply(payload: bytes, *, status: int = 200) -> Response:
    """JSON that is already encoded, as a response."""
    return Response(payload, status=status, content_type=JSON_TYPE)
