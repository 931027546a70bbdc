"""What owners ask for by forms: commands that they confirm elsewhere. Nothing runs here."""

from __future__ import annotations

from flask import Blueprint, g, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from qserver.portal.guard import FORM_FIELD
from qserver.portal.pages.owner import owners_only
from qserver.portal.render import page
from qserver.service.service import Service

_PLACE = "/owner/requests"


class WishPages:
    """The page of an owner's requests, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes, each for owners alone."""
        routes.get(_PLACE)(owners_only(self.show_wishes))
        routes.post(f"{_PLACE}/<kind>")(owners_only(self.add_wish))

    def show_wishes(self) -> str:
        """What waits, and a form of each command."""
        wishes = self._service.wishes
        return page("wishes.html", waiting=wishes.all(), commands=wishes.commands)

    def add_wish(self, kind: str) -> BaseResponse:
        """Keep what a form asks for; InputError names the field that is wrong."""
        given = {k: v.strip() for k, v in request.form.items() if k != FORM_FIELD}
        values = {name: value for name, value in given.items() if value}
        wish = self._service.wishes.add(kind, values, by=g.caller.account)
        return redirect(f"/portal{_PLACE}#{wish.digest}", 303)
