"""Pages and parts of pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Response, render_template

CSV_TYPE = "text/csv; charset=utf-8"


def page(template: str, **context: Any) -> str:
    """Render a page, or a part of one, from `templates/portal/`."""
    return render_template(f"portal/{template}", **context)


def download(text: str, *, name: str, content_type: str) -> Response:
    """A file to keep.

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
