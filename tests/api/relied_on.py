"""What clients rely on in the OpenAPI document: routes, members of bodies, and their types.

`relied_on.txt` keeps it, a line for each member; `python -m tests.api` writes it. What is added
breaks no client, and so no test: it is kept when the file is next written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("relied_on.txt")
REQUIRED = "required"
_AGAIN = "within itself"
_LINE = re.compile(r"(?m)^((?:[^:]* )?[^.\[ :]+)([^ :]*): (.+)$")

Members = Mapping[str, frozenset[str]]
"""By the path of a member, its types: of JSON, `"a text"`, `#Component`, and `required`."""
Contract = Mapping[str, Members]
"""Members by component, and by what a route takes and gives."""


def relied_on(document: Mapping[str, Any]) -> Contract:
    """Of an OpenAPI document."""
    found = dict[str, dict[str, frozenset[str]]]()
    for place, path, token in _tokens(document):
        members = found.setdefault(place, {})
        members[path] = members.get(path, frozenset()) | {token}
    return found


def text_of(contract: Contract) -> str:
    """Sorted lines."""
    lines = [
        f"{place}{path}: {', '.join(sorted(tokens))}\n"
        for place, members in contract.items()
        for path, tokens in members.items()
    ]
    return "".join(sorted(lines))


def read(text: str) -> Contract:
    """What `text_of` wrote."""
    found = dict[str, dict[str, frozenset[str]]]()
    for place, path, tokens in _LINE.findall(text):
        found.setdefault(place, {})[path] = frozenset(tokens.split(", "))
    return found


def broken(kept: Contract, now: Contract) -> Iterator[str]:
    """Where a client that keeps to the one is let down by the other; components may be renamed.

    A reply must have every member, and no type that it had not. A request must be taken with every
    member and type, and need none that it did not need.
    """
    for place in (place for place in kept if " " in place):
        if place not in now:
            yield place
            continue
        old, new = _whole(kept, place), _whole(now, place)
        lets_down = _refuses if " takes " in place else _surprises
        yield from (place + path for path in old.keys() - new.keys())
        yield from (place + path for path in new if lets_down(old.get(path), new[path]))
    routes = {place.partition(" takes ")[0].partition(" gives ")[0] for place in kept}
    for place in now.keys() - kept.keys():
        route, _, taken = place.partition(" takes ")
        if taken and route in routes and REQUIRED in now[place][""]:
            yield place


def _refuses(old: frozenset[str] | None, new: frozenset[str]) -> bool:
    """Whether a member of a request that was taken is so no longer."""
    if old is None:
        return REQUIRED in new
    lost = {token for token in old - new if not _is_among(token, new)}
    return bool(lost - {REQUIRED}) or REQUIRED in new - old


def _surprises(old: frozenset[str] | None, new: frozenset[str]) -> bool:
    """Whether a member of a reply has a type that it had not, or need no longer be there."""
    if old is None:
        return False
    known = old | {"string"} if any(token[0] == '"' for token in old) else old
    more = {token for token in new - known if not _is_among(token, known)}
    return bool(more - {REQUIRED}) or REQUIRED in old - new


def _is_among(token: str, wider: frozenset[str]) -> bool:
    """Whether it is a case of another: a text that is named, or an integer."""
    return ("string" in wider and token[0] == '"') or ("number" in wider and token == "integer")


def _whole(contract: Contract, place: str) -> Members:
    """The members at a place with all components opened, but for one within itself."""
    found = dict[str, frozenset[str]]()
    todo: list[tuple[str, str, tuple[str, ...]]] = [(place, "", ())]
    while todo:
        opened, at, within = todo.pop()
        for path, tokens in contract[opened].items():
            names = {token[1:] for token in tokens if token[0] == "#"}
            plain = {_AGAIN if token[1:] in within else token for token in tokens}
            found[at + path] = found.get(at + path, frozenset()).union(
                token for token in plain if token[0] != "#"
            )
            todo += [(name, at + path, (*within, name)) for name in names - set(within)]
    return found


def _tokens(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, schema in document["components"]["schemas"].items():
        yield from ((name, path, token) for path, token in _of_schema(schema))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield from _of_operation(operation, f"{method.upper()} {path}")


def _of_operation(operation: Mapping[str, Any], route: str) -> Iterator[tuple[str, str, str]]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":  # the route's own text has it
            continue
        place = f"{route} takes {parameter['in']} {parameter['name']}"
        yield from ((place, path, token) for path, token in _of_schema(parameter["schema"]))
        if parameter.get("required"):
            yield place, "", REQUIRED
    if "requestBody" in operation:
        yield f"{route} takes body", "", REQUIRED
        yield from _of_content(operation["requestBody"]["content"], f"{route} takes body")
    for status, response in operation["responses"].items():
        if status < "400":
            yield from _of_content(response["content"], f"{route} gives {status}")
        else:
            schema = response["content"]["application/problem+json"]["schema"]
            codes = schema["allOf"][1]["properties"]["code"]["enum"]
            yield from ((f"a problem gives {code}", "", status) for code in codes)


def _of_content(content: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, str]]:
    for media_type, body in content.items():
        yield place, "", media_type
        yield from ((place, path, token) for path, token in _of_schema(body.get("schema", {})))


def _of_schema(schema: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """The types of a value, and of all that it holds."""
    if "$ref" in schema:
        yield at, "#" + schema["$ref"].rpartition("/")[2]
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _of_schema(one, at)
    kinds = schema.get("type", ())
    texts = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if texts is not None:
        yield from ((at, json.dumps(text)) for text in texts)
    else:
        yield from ((at, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    yield from _of_parts(schema, at)


def _of_parts(schema: Mapping[str, Any], at: str) -> Iterator[tuple[str, str]]:
    for name, member in schema.get("properties", {}).items():
        yield from _of_schema(member, f"{at}.{name}")
        if name in schema.get("required", ()):
            yield f"{at}.{name}", REQUIRED
    items, more = schema.get("items"), schema.get("additionalProperties")
    for item in (*schema.get("prefixItems", ()), *([items] if isinstance(items, dict) else [])):
        yield from _of_schema(item, f"{at}[]")
    if isinstance(more, dict):
        yield from _of_schema(more, f"{at}.*")
