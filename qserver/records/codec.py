"""How dataclasses become plain JSON values and back: each field by its name and type.

A field that has its default is left out, so that what is added later changes no older text. A class
may say otherwise by `to_plain` and `from_plain`, and a field by its metadata:
`field(default=0, metadata=as_("alpha", always=True))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from functools import cache, partial
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
By = Mapping[type, Callable[[Any], Any]]
"""How values of some types are read or written that depend on more than their text."""
_Function = Callable[[Any, By], Any]
_NOTHING: By = MappingProxyType({})
_AS_IT_IS = frozenset((str, int, float, bool, NoneType))


def at(*path: str, by: Callable[[Any], Any] | None = None) -> Mapping[str, Any]:
    """Metadata of a field that stands under another name.

    Args:
        path: the members that lead to it; none means the whole document.
        by: makes the field's value, from None where the path leads nowhere.
    """
    return {"path": path, "by": by}


def as_(name: str | None = None, *, always: bool = False, last: int = 0) -> Mapping[str, Any]:
    """Metadata of a field with its own written form.

    Args:
        always: whether it is written where it has its default, too.
        last: above 0 behind the fields of a lower one.
    """
    path = {} if name is None else {"path": (name,)}
    return {**path, "always": always, "last": last}


ALWAYS = as_(always=True)


def plain(value: Any, by: By = _NOTHING) -> Any:
    """The value as plain JSON values; a dataclass with `as_list` becomes a list of its fields."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind in by:
        return by[kind](value)
    if kind is tuple or kind is list:
        return [plain(one, by) for one in value]
    if kind is Fraction:
        return str(value)
    write = getattr(kind, "to_plain", None) or getattr(kind, "to_document", None)
    if write is not None:
        return write(value)
    return _writer(kind)(value, by) if hasattr(kind, "__dataclass_fields__") else dict(value)


def read(kind: type[T], document: Any, by: By = _NOTHING) -> T:
    """The dataclass that `plain` wrote; unknown members are ignored.

    A list becomes a tuple, and a document the class of its field. A member that is missing leaves
    the field's default, or None if the type allows that.

    Raises:
        KeyError: a member that the class needs is missing.
    """
    made: Any = kind
    found: T = _reader(made)(document, by)
    return found


class _Code:
    """A function that is built as text, as `dataclass` builds those of a class.

    Histories of 100,000 rows are read so; a loop over fields would take half as long again.
    """

    def __init__(self, head: str) -> None:
        self._lines = [head]
        self._known: dict[str, Any] = {"plain": plain, "read": read, "Fraction": Fraction}

    def name(self, value: Any) -> str:
        """A name for a value that the text needs."""
        name = f"v{len(self._known)}"
        self._known[name] = value
        return name

    def add(self, line: str) -> None:
        """Append a line to its body."""
        self._lines.append(f"    {line}")

    def made(self) -> _Function:
        """The built function; its text has only field names and JSON names."""
        exec("\n".join(self._lines), self._known)  # noqa: S102
        found: _Function = self._known["made"]
        return found


@cache
def _writer(kind: Any) -> _Function:
    hints, code = get_type_hints(kind), _Code("def made(record, by):")
    code.add("found = {}")
    for item in sorted(fields(kind), key=lambda item: item.metadata.get("last", 0)):
        [name] = item.metadata.get("path", (item.name,))
        value = f"record.{item.name}"
        line = f"found[{name!r}] = {_written(hints[item.name], value)}"
        if item.default is not MISSING and not item.metadata.get("always"):
            line = f"if {value} != {code.name(item.default)}: {line}"
        code.add(line)
    code.add("return list(found.values())" if hasattr(kind, "as_list") else "return found")
    return code.made()


def _written(hint: Any, value: str) -> str:
    """The text that turns a value into plain JSON."""
    if _is_json(hint):
        return value
    if get_origin(hint) is tuple and all(_is_json(one) for one in _members(hint)):
        return f"list({value})"
    if hasattr(hint, "to_document"):
        return f"{value}.to_document()"
    return f"str({value})" if hint is Fraction else f"plain({value}, by)"


@cache
def _reader(kind: Any) -> _Function:
    hints, code = get_type_hints(kind), _Code("def made(document, by):")
    known, values = code.name(kind), []
    for i, item in enumerate(fields(kind)):
        hint, path = hints[item.name], item.metadata.get("path", (item.name,))
        absent, make = _absent(item, hint), item.metadata.get("by")
        if make is not None or len(path) != 1:
            found = code.name(partial(_followed, path=path, make=make, absent=absent))
            values.append(_read(code, hint, f"{found}(document)"))
            continue
        in_list = hasattr(kind, "as_list")
        value = _read(code, hint, f"document[{i if in_list else path[0]!r}]")
        if absent is not MISSING:
            has = f"len(document) > {i}" if in_list else f"{path[0]!r} in document"
            value = f"{value} if {has} else {code.name(absent)}"
        values.append(value)
    code.add(f"return {known}({', '.join(values)})")
    return code.made()


def _absent(item: Field[Any], hint: Any) -> Any:
    """The value for a missing member; MISSING if the member is needed."""
    if item.metadata.get("by") or NoneType in get_args(hint):
        return None if item.default is MISSING else item.default
    return item.default if item.default_factory is MISSING else item.default_factory()


def _followed(document: Any, *, path: Sequence[str], make: Any, absent: Any) -> Any:
    value = document
    for name in path:
        if value is None:
            break
        value = value[name] if absent is MISSING else value.get(name)
    return value if make is None else make(value)


def _read(code: _Code, hint: Any, value: str) -> str:
    """The text that brings a value into its type's form."""
    origin, inner, name = get_origin(hint), _members(hint), code.name(hint)
    if origin in (Union, UnionType):
        held = f"{name}_"
        made = _read(code, inner[0], held)
        return value if made == held else f"(None if ({held} := {value}) is None else {made})"
    if origin is tuple:
        if all(_is_json(one) for one in inner):
            return f"tuple({value})"
        if len(get_args(hint)) > len(inner):
            return f"tuple([{_read(code, inner[0], f'{name}_')} for {name}_ in {value}])"
        places = [f"{name}_{i}" for i in range(len(inner))]
        made = ", ".join(_read(code, one, at) for one, at in zip(inner, places, strict=True))
        return f"[({made}) for {', '.join(places)} in ({value},)][0]"
    if hint is Fraction:
        return f"Fraction({value})"
    if hasattr(hint, "from_plain"):
        return f"by.get({name}, {name}.from_plain)({value})"
    if hasattr(hint, "to_document"):
        return f"by[{name}]({value})"
    if is_dataclass(hint):
        return f"(by[{name}]({value}) if {name} in by else read({name}, {value}, by))"
    return value


def _members(hint: Any) -> list[Any]:
    return [one for one in get_args(hint) if one is not Ellipsis]


def _is_json(hint: Any) -> bool:
    """Whether values of the type are plain JSON already."""
    if get_origin(hint) in (Union, UnionType):
        return all(_is_json(one) for one in _members(hint))
    return hint in _AS_IT_IS or get_origin(hint) is Literal
