"""Pages and parts of pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from flask import Response, render_template, request

CSV_TYPE = "text/csv; charset=utf-8"


def page(template: str, **context: Any) -> str:
    """Render a page, or a part of one, from `templates/portal/`."""
    return render_template(f"portal/{template}", **context)


def this_page(**changed: str) -> str:
    """The address of the present page, with some fields changed."""
    others = [pair for pair in request.args.items(multi=True) if pair[0] not in changed]
    return f"{request.path}?{urlencode([*others, *changed.items()], safe=':')}"


def download(text: str, *, name: str, content_type: str) -> Response:
    """A text to download as a file.

    Args:
        name: of the file; letters, digits, `.`, `_`, `-` and `~`.
    """
    response = Response(text, content_type=content_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV (RFC 4180), every text quoted."""
    return "".join(",".join(map(_cell, row)) + "\r\n" for row in rows)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value)
    return '"' + str(value).replace('"', '""') + '"'
