"""Codes: what a column holds in place of a label, as canonical text.

A code is a text, a whole number or a boolean. The last two are kept as the texts that JSON has
for them, `3` and `true`, and stand for every notation that programs write them in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from qserver.errors import DomainError

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_BOOLEANS = {"true": ("true", "t", "yes", "y"), "false": ("false", "f", "no", "n")}
_DIGITS = {"true": "1", "false": "0"}


def code_text(value: object) -> str | None:
    """The canonical text of a code, or None if the value is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        text = str(value) if abs(value) < 10**18 else ""
        return text or None
    return value if isinstance(value, str) and value else None


def check_codes(codes: Sequence[str], n_labels: int) -> None:
    """Raise DomainError unless there are no codes, or a distinct one for each label."""
    if not codes:
        return
    if len(codes) != n_labels:
        raise DomainError("codes", f"be {n_labels:,}, one for each label", len(codes))
    if not all(isinstance(code, str) and code for code in codes):
        raise DomainError("codes", "be texts, whole numbers or booleans")
    if len(set(codes)) < len(codes):
        raise DomainError("codes", "name each code once", Counter(codes).most_common(1)[0][0])


def check_markers(markers: Sequence[str], texts: Sequence[str], what: str) -> None:
    """Raise DomainError if a missing marker is a label or code, whichever a column holds."""
    if clash := set(markers) & set(texts):
        raise DomainError("missing_markers", f"not be {what} too", min(clash))


def recorded_texts(codes: Sequence[str]) -> dict[str, int]:
    """Every text that a column may hold for a code, with the code's index.

    A whole number may be written `3` or `3.0`, as tables with gaps write it. A boolean is `true`,
    `t`, `yes` or `y` in any usual capitals, or `1`. What is itself a code stands for that code.
    """
    found = {text: i for i, code in enumerate(codes) for text in _written(code)}
    return found | {code: i for i, code in enumerate(codes)}


def index_of_boolean(texts: Sequence[str], *, value: bool) -> int | None:
    """Index of the only code or label that is `true` (or `false`) in some capitals, or None."""
    wanted = "true" if value else "false"
    found = [i for i, text in enumerate(texts) if text.lower() == wanted]
    return found[0] if len(found) == 1 else None


def _written(code: str) -> Iterator[str]:
    if _WHOLE.fullmatch(code):
        yield f"{code}.0"
    for word in _BOOLEANS.get(code, ()):
        yield from (word, word.capitalize(), word.upper())
    if code in _DIGITS:
        yield _DIGITS[code]
