"""How the cells of a column are compared with what a domain file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.errors import DomainError


@dataclass(frozen=True)
class Cells:
    """What does not count in the cells of an attribute.

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
        """From the keys of an attribute; `null` is no value of theirs."""
        if "trim" in item and item["trim"] is None:
            raise DomainError("trim", "be true or false", None)
        given = {key: item[key] for key in ("trim", "fold", "decimal") if key in item}
        return cls(**given)  # type: ignore[arg-type]

    def document(self) -> dict[str, object]:
        """The keys that say something."""
        said = {key: getattr(self, key) for key in ("trim", "fold", "decimal")}
        return {key: value for key, value in said.items() if value != getattr(PLAIN, key)}

    def check_distinct(self, texts: Sequence[str], name: str) -> None:
        """Raise DomainError if two texts are one without capitals, where these do not count."""
        seen = set[str]()
        for i, text in enumerate(texts if self.fold else ()):
            if text.lower() in seen:
                raise DomainError(f"{name}[{i}]", "differ by more than capitals with `fold`", text)
            seen.add(text.lower())


PLAIN = Cells()
"""Blanks at the ends alone do not count."""
