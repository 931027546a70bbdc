"""Names of attributes from names of columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

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
