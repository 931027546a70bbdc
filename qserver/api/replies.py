"""Successful responses, and what HTTP says of a record, for the pages that give it as a file."""

from __future__ import annotations

from flask import Response
from pydantic import BaseModel

from qserver.api.bodies.answers import AnswerBody
from qserver.api.bodies.sql import SqlTableBody
from qserver.records.answer import Answer
from qserver.service.statement_answers import StatementAnswer

JSON_TYPE = "application/json"


def json_reply(body: BaseModel, *, status: int = 200) -> Response:
    """The body as a JSON response."""
    return bytes_reply(body.model_dump_json().encode(), status=status)


def bytes_reply(payload: bytes, *, status: int = 200) -> Response:
    """JSON that is already encoded, as a response."""
    return Response(payload, status=status, content_type=JSON_TYPE)


def body_of(found: Answer | StatementAnswer) -> BaseModel:
    """The body that HTTP sends of an answer, or of a table."""
    if isinstance(found, StatementAnswer):
        return SqlTableBody.of_answer(found)
    return AnswerBody.of(found)
