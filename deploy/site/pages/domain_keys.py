"""domain-keys.md: every key of a domain file, read off the list that the parser uses."""

from __future__ import annotations

from collections.abc import Iterator

from qserver.query.domain_keys import ALL, KEYS, Key

_HEAD = """\
# Keys of the domain file

Every key of an attribute, from the list that the parser itself uses. [The domain file](domain.md)
explains them with examples. `qserver-worker domain check FILE` names every
fault of a file, and [domain.schema.json](domain.schema.json) (`qserver-worker domain schema`) is
the JSON Schema for editors: `"$schema"` in JSON, or `#:schema` in the first line of TOML.

| key | kinds |
|---|---|
"""


def domain_keys() -> str:
    """The page, as Markdown."""
    rows = "\n".join(f"| [`{key.name}`](#{key.name}) | {_kinds(key)} |" for key in KEYS)
    return _HEAD + rows + "\n" + "\n".join(line for key in KEYS for line in _section(key))


def _section(key: Key) -> Iterator[str]:
    yield f"\n## `{key.name}`\n"
    yield f"{key.meaning}\n"
    yield f"- takes {key.value}"
    yield f"- of kind {_kinds(key)}"
    yield f"- if it is left out: {key.default}\n"
    yield f"```toml\n{key.example}\n```"


def _kinds(key: Key) -> str:
    return "any" if key.of == ALL else ", ".join(f"`{kind}`" for kind in key.of)
