"""Labels: their codes in a column, and the levels that join them.

*Levels* join labels to larger groups, such as districts to regions. A level has its own name for
conditions and GROUP BY. It adds no values to the domain: a condition on it is one on the labels, so
released answers about these serve it. *Codes* replace labels in a column. A code is a text, a whole
number or a boolean, kept as its JSON text such as `3` and `true`, for every notation that programs
write.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.errors import DomainError

MAX_LEVELS = 16


@dataclass(frozen=True)
class Level:
    """One level above the labels of an attribute.

    Args:
        name: as that of an attribute, and different from all of them.
        groups: the names of its groups, in order.
        group_of: index of the group of each label.

    Raises:
        DomainError: groups are no distinct texts, or one has no label.
    """

    name: str
    groups: tuple[str, ...]
    group_of: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.groups or not all(isinstance(g, str) and g for g in self.groups):
            raise DomainError("", "have one or more groups, whose names are non-empty texts")
        if len(set(self.groups)) < len(self.groups):
            raise DomainError("", "name each group once")
        if set(self.group_of) != set(range(len(self.groups))):
            raise DomainError("", "have a label in each group, and each label in one")

    def masks(self, *, other: str | None) -> dict[str, int]:
        """The mask of the labels of each group, in order.

        Args:
            other: the extra value, as its own group; None for none.
        """
        found = dict.fromkeys(self.groups, 0)
        for i, group in enumerate(self.group_of):
            found[self.groups[group]] |= 1 << i
        if other is not None:
            found[other] = 1 << len(self.group_of)
        return found

    def labels_of(self, group: int, labels: tuple[str, ...]) -> list[str]:
        """The labels of a group."""
        return [label for label, at in zip(labels, self.group_of, strict=True) if at == group]


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
    `t`, `yes` or `y` in any usual capitals, or `1`. A text that is a code means that code.
    """
    found = {text: i for i, code in enumerate(codes) for text in _written(code)}
    return found | {code: i for i, code in enumerate(codes)}


def index_of_boolean(texts: Sequence[str], *, value: bool) -> int | None:
    """Index of the only code or label `true` (or `false`), in any capitals, or None."""
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


@dataclass(frozen=True)
class Cells:
    """Insignificant differences between the cells of an attribute.

    Args:
        trim: whether cells lose all white space at their ends (True) or nothing (False); None for
            blanks alone.
        fold: whether capitals make no difference, for kind `labels`.
        decimal: the sign before the fraction in a column of texts, for numeric kinds.

    Raises:
        DomainError: a value is none of these.
    """

    trim: bool | None = None
    fold: bool = False
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.trim is not None and not isinstance(self.trim, bool):
            raise DomainError("trim", "be true or false", self.trim)
        if not isinstance(self.fold, bool):
            raise DomainError("fold", "be true or false", self.fold)
        if not isinstance(self.decimal, str) or self.decimal not in (".", ","):
            raise DomainError("decimal", "be `.` or `,`", self.decimal)

    @classmethod
    def of(cls, item: dict[str, object]) -> Cells:
        """Read the keys of an attribute; `null` is not allowed."""
        if "trim" in item and item["trim"] is None:
            raise DomainError("trim", "be true or false", None)
        given = {key: item[key] for key in ("trim", "fold", "decimal") if key in item}
        return cls(**given)  # type: ignore[arg-type]

    def document(self) -> dict[str, object]:
        """The keys that are set."""
        said = {key: getattr(self, key) for key in ("trim", "fold", "decimal")}
        return {key: value for key, value in said.items() if value != getattr(PLAIN, key)}

    def check_distinct(self, texts: Sequence[str], name: str) -> None:
        """Raise DomainError if two texts differ only in capitals that do not count."""
        seen = set[str]()
        for i, text in enumerate(texts if self.fold else ()):
            if text.lower() in seen:
                raise DomainError(f"{name}[{i}]", "differ by more than capitals with `fold`", text)
            seen.add(text.lower())


PLAIN = Cells()
"""Blanks at the ends alone do not count."""


def code_dtype(size: int) -> type[np.uint8] | type[np.uint16] | type[np.uint32]:
    """The smallest unsigned type that holds the codes of `size` values."""
    if size <= 1 << 8:
        return np.uint8
    return np.uint16 if size <= 1 << 16 else np.uint32
