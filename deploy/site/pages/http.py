"""http.md of the site: notes written by hand, and between them what the OpenAPI document says.

In `http_template.md` a line `<<POST /path>>` stands for the route. With ` asked>>` at its
end the reply is only named, with ` in short>>` all bodies are left out; the OpenAPI document has
them. `<<problems>>` stands for the table of problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qserver.api.errors import KINDS

TEMPLATE = Path(__file__).parent / "http_template.md"
_PLACE = re.compile(r"^<<(.+)>>$", re.MULTILINE)
_SHORT, _ASKED = " in short", " asked"
_WIDTH = 150
# Said once in the conventions of the page.
_PLAIN = "in epsilon, a multiple of 1e-9"
_KNOWN = {"version", "interval", "n_cells", "n_charges", "id", "model", "code", "own"}

Schema = Mapping[str, Any]


def http_page(document: Schema) -> str:
    """The page, as Markdown.

    Raises:
        ValueError: a route has no place in the template, or a place no route.
    """
    template = TEMPLATE.read_text(encoding="utf-8")
    page = _Page(document)
    places = {_route_of(place) for place in _PLACE.findall(template)} - {"problems"}
    if places != set(page.routes):
        raise ValueError(f"{TEMPLATE.name} must have each route, got {places ^ set(page.routes)}.")
    return _PLACE.sub(lambda place: page.at(place[1]), template)


class _Page:
    """The parts of the page; each schema is described where it first comes."""

    def __init__(self, document: Schema) -> None:
        self._schemas = document["components"]["schemas"]
        self._described: set[str] = set()
        self._shown: set[str] = {"Problem"}
        self._said: set[str] = set()
        self.routes = {
            f"{method.upper()} {path}": operation
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }

    def at(self, place: str) -> str:
        """What stands at a place of the template."""
        if place == "problems":
            return _problems()
        route = _route_of(place)
        parts = list(self._head(route))
        if not place.endswith(_SHORT):
            parts += self._bodies(route, has_reply=not place.endswith(_ASKED))
        return "\n\n".join(parts)

    def _head(self, place: str) -> Iterator[str]:
        operation = self.routes[place]
        yield f"### `{place}`"
        yield f"{operation['summary']}. {_line(operation.get('description', ''))}".strip()
        yield from self._parameters(operation)

    def _parameters(self, operation: Schema) -> Iterator[str]:
        """The names; a description where it was not given before."""
        found = operation.get("parameters", ())
        texts = [self._parameter(p) for p in found if p["in"] == "query"]
        if texts:
            yield f"Parameters: {'; '.join(texts)}."
        if any(p["in"] == "header" for p in found):
            yield "[Waiting](#waiting) is as for every question."

    def _parameter(self, parameter: Schema) -> str:
        text = f"{_bounds(parameter['schema'])}: {parameter['description']}"
        is_new = text not in self._said
        self._said.add(text)
        return f"`{parameter['name']}`" + text * is_new

    def _bodies(self, place: str, *, has_reply: bool) -> Iterator[str]:
        operation = self.routes[place]
        request = operation.get("requestBody")
        if request:
            name = _name_of(request["content"])
            if name in self._shown:
                yield f"The body is a `{name}`, as above."
            yield from self._body(name, above="Body", is_asked=True)
        for response in list(operation["responses"].values())[:1]:
            name = _name_of(response["content"])
            if has_reply:
                yield from self._body(name, above="200", is_asked=False)
            elif name is not None:
                yield f"200, `{name}`."

    def _body(self, name: str | None, *, above: str, is_asked: bool) -> Iterator[str]:
        """A body's example and fields; nothing where it stood before."""
        if name is None or name in self._shown:
            return
        self._shown.add(name)
        example = json_text(self._schemas[name]["examples"][0])
        yield f"{above}, `{name}`:\n\n```json\n{example}\n```"
        yield from self._described_fields(name, is_asked=is_asked)

    def _described_fields(self, name: str, *, is_asked: bool) -> Iterator[str]:
        lines = [
            f"- `{field}`: {text}"
            for field, text in self._fields(name)
            if self._is_news(field, text, is_asked=is_asked)
        ]
        if lines:
            yield "\n".join(lines)

    def _fields(self, name: str) -> Iterator[tuple[str, str]]:
        """Fields with their descriptions, those of inner components too."""
        if name in self._described:
            return
        self._described.add(name)
        for field, schema in self._schemas[name].get("properties", {}).items():
            yield field, _line(schema.get("description", ""))
            for inner in _inner(schema):
                yield from self._fields(inner)

    def _is_news(self, field: str, text: str, *, is_asked: bool) -> bool:
        """Whether a description must be given: in a reply a name is described once."""
        if not text or text == _PLAIN or field in _KNOWN:
            return False
        mark = f"{field}: {text}" if is_asked else field
        is_new = mark not in self._said
        self._said |= {mark, field}
        return is_new


def _route_of(place: str) -> str:
    return place.removesuffix(_SHORT).removesuffix(_ASKED)


def _inner(schema: Schema) -> Iterator[str]:
    """Names of the components that a field holds."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    for choice in schema.get("anyOf", ()):
        yield from _inner(choice)
    if isinstance(schema.get("items"), Mapping):
        yield from _inner(schema["items"])


def json_text(value: Any, indent: int = 0) -> str:
    """JSON in few lines: what fits in one stands in one."""
    short = json.dumps(value, ensure_ascii=False)
    if indent + len(short) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return short
    inside = " " * (indent + 2)
    if isinstance(value, list):
        parts = [inside + json_text(one, indent + 2) for one in value]
        return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"
    return "{\n" + "\n".join(_packed(value, indent + 2)) + "\n" + " " * indent + "}"


def _packed(value: Mapping[str, Any], indent: int) -> Iterator[str]:
    """The members of an object, as many in a line as fit."""
    line, ends = "", len(value) - 1
    for i, (name, member) in enumerate(value.items()):
        text = f'"{name}": {json_text(member, indent)}' + ("," if i < ends else "")
        if line and (indent + len(line) + len(text) >= _WIDTH or "\n" in text):
            yield " " * indent + line
            line = ""
        line = f"{line} {text}".strip()
    yield " " * indent + line


def _bounds(schema: Schema) -> str:
    parts = [f"{schema[name]}" for name in ("minimum", "maximum") if name in schema]
    default = f"default {schema['default']}" if "default" in schema else ""
    span = " to ".join(parts) if len(parts) == len(("minimum", "maximum")) else ""
    text = ", ".join(part for part in (span, default) if part)
    return f" ({text})" if text else ""


def _name_of(content: Schema) -> str | None:
    """The component of a JSON body, or None where it is text."""
    schema = content.get("application/json", {}).get("schema", {})
    name: str | None = schema.get("$ref", "").rpartition("/")[2] or None
    return name


def _problems() -> str:
    rows = [f"| `{kind.code}` | {kind.status} | {kind.title} |" for kind in KINDS.values()]
    return "\n".join(["| code | status | meaning |", "|---|---|---|", *rows])


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
