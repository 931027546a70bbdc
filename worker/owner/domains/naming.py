"""Names of attributes from names of columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from qserver.errors import DomainError
from qserver.query.domain import Domain, check_name
from qserver.query.domain_file import domain_from_document

_MOST = 56  # leaves room for a number behind it


def attribute_name(column: str, taken: Collection[str]) -> str:
    """A name that needs no quotes anywhere, and is not taken: `Größe (cm)` becomes `Grosse_cm`."""
    plain = unicodedata.normalize("NFKD", column.replace("ß", "ss"))
    letters = "".join(c for c in plain if not unicodedata.combining(c))
    found = re.sub(r"[^A-Za-z0-9_]+", "_", letters).strip("_")[:_MOST]
    if not found or not re.search(r"[A-Za-z]", found):
        found = f"column_{found}".rstrip("_")
    if found[0].isdigit():
        found = f"_{found}"
    name, n = found, 2
    while name.lower() in {other.lower() for other in taken}:
        name, n = f"{found}_{n}", n + 1
    return name


def domain_of_columns(document: Mapping[str, Any]) -> Domain:
    """The domain of a document whose attributes are called as their columns.

    An attribute whose column cannot be its name is given one, and reads that column.

    Raises:
        DomainError: it is wrong in another way.
    """
    items = document["attributes"]
    taken = [item["name"] for item in items if _is_name(item["name"])]
    found = []
    for item in items:
        column = item["name"]
        if not _is_name(column):
            taken.append(attribute_name(column, taken))
            item = {**item, "name": taken[-1], "column": column}
        found.append(item)
    return domain_from_document({**document, "attributes": found})


def _is_name(text: str) -> bool:
    try:
        check_name(text)
    except DomainError:
        return False
    return True
