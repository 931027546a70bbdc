"""Load a domain from its file."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal
from pathlib import Path

from qserver.errors import DomainError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document

MAX_BYTES = 64 << 20
BLANKS = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""What cells lose at their ends unless `trim` says otherwise: Unicode's blanks, and no tabs."""


def load_domain(path: Path) -> Domain:
    """The domain in a JSON or TOML file (by its ending).

    Raises:
        DomainError: the file cannot be read or is wrong; the message names the place.
    """
    return domain_from_document(parse_text(path, read_text(path)))


def load_new_domain(path: Path) -> Domain:
    """The domain in a file that is to be attached; raises as `domain_of_new` too."""
    return domain_of_new(parse_text(path, read_text(path)))


def domain_of_new(document: object) -> Domain:
    """The domain that a file describes which is to be attached.

    Raises:
        DomainError: it is wrong, or has a label that no cell can match. Of what is attached this
            is not asked: earlier versions took it.
    """
    domain = domain_from_document(document)
    for i, attribute in enumerate(domain.attributes):
        ends = {None: BLANKS, True: None, False: ""}[attribute.cells.trim]  # what `strip` takes off
        for key in ("codes" if attribute.codes else "labels", "missing_markers"):
            for k, text in enumerate(getattr(attribute, key)):
                if text != text.strip(ends):
                    raise DomainError(
                        f"attributes[{i}].{key}[{k}]",
                        "have no blank at its ends",
                        text,
                        hint="Cells lose theirs before they are compared, so nothing matches it.",
                    )
    return domain


def read_text(path: Path) -> str:
    """The text of a domain file; DomainError if it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DomainError(str(path), f"be at most {MAX_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:  # not UTF-8, or a NUL in the path
        raise DomainError(str(path), f"be a readable UTF-8 file ({type(exc).__name__})") from exc


def parse_text(path: Path, text: str) -> object:
    """The document in the text of a file, by the file's ending; DomainError."""
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text, parse_float=Decimal)
        if path.suffix == ".json":
            return json.loads(text, parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, ArithmeticError, RecursionError) as exc:
        # Bad syntax, integers beyond Python's limit, or exponents beyond Decimal's.
        reason = f"{path.suffix[1:].upper()} ({str(exc)[:200]})"
        raise DomainError(str(path), f"be well-formed {reason}") from exc
    raise DomainError(str(path), "end in .json or .toml")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; a key that is there twice would silently be read once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise DomainError(repeated, "be given once in an object of JSON")
    return found
