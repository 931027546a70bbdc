"""What all views have in common: their routes, and how a request is read."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from flask import Blueprint, request

from qserver.api.bodies.requests import RequestBody
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation_of, read_parameters
from qserver.service.service import Service

_Body = TypeVar("_Body", bound=RequestBody)


class Views:
    """The views of one resource, on one service; each method with an operation is a route.

    Args:
        service: the use cases.
        wait_s: how long a request waits before it becomes a job, in seconds.
    """

    name: ClassVar[str]
    place: ClassVar[str] = ""
    """Where all paths of the resource begin."""

    def __init__(self, service: Service, *, wait_s: float = 0.0) -> None:
        self._service = service
        self._wait_s = wait_s

    def blueprint(self) -> Blueprint:
        """The routes."""
        routes = Blueprint(self.name, __name__)
        for name, view in vars(type(self)).items():
            found = operation_of(view)
            if found is not None:
                bound = getattr(self, name)
                routes.add_url_rule(self.place + found.path, name, bound, methods=[found.method])
        return routes


def read_request(body: type[_Body]) -> _Body:
    """The body of the present request, which takes no parameters.

    Raises:
        RequestError, BadRequest: it is no JSON object, or a field is wrong.
        InputError: the address has parameters.
    """
    read_parameters(request)
    return body.read(parse_object(read_body(request)))
