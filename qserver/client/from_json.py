"""How results are read from the server's JSON: each field by its name and its type.

A class that derives from `FromJson` needs no code of its own. A field that stands elsewhere in the
document, or in another form, says so: `field(metadata=at("plan", by=len))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints


def at(*path: str, by: Callable[[Any], Any] | None = None) -> Mapping[str, Any]:
    """Metadata of a field that does not stand under its own name.

    Args:
        path: the members that lead to it; none means the whole document.
        by: makes the field's value, from None where the path leads nowhere.
    """
    return {"path": path, "by": by}


class FromJson:
    """A dataclass that can be read from the server's JSON."""

    @classmethod
    def of(cls, document: Any) -> Self:
        """The result that the server's JSON holds.

        A list becomes a tuple, and a document the class of its field. A member that is missing
        leaves the field's default, or None if the type allows that.

        Raises:
            KeyError: a member that the result needs is missing.
        """
        kind: Any = cls
        return cls(**{name: read(document) for name, read in _readers(kind)})


@cache
def _readers(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    hints = get_type_hints(kind)
    return tuple((item.name, _reader(item, hints[item.name])) for item in fields(kind))


def _reader(item: Field[Any], hint: Any) -> Callable[[Any], Any]:
    """Reads the value of one field from a document."""
    path, by = item.metadata.get("path", (item.name,)), item.metadata.get("by")
    absent = None if by or type(None) in get_args(hint) else item.default

    def read(document: Any) -> Any:
        for name in path:
            if document is None:
                break
            document = document[name] if absent is MISSING else document.get(name, absent)
        return _typed(document if by is None else by(document), hint)

    return read


def _typed(value: Any, hint: Any) -> Any:
    """The value in the form that the type of its field has."""
    if value is None:
        return None
    if get_origin(hint) is UnionType:
        return _typed(value, get_args(hint)[0])
    if get_origin(hint) is tuple:
        return tuple(_typed(one, get_args(hint)[0]) for one in value)
    return hint.of(value) if hasattr(hint, "of") else value
