"""What a statement gives: columns and rows, and what a client prints when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qserver.postgres.wire.values import Column, Literal


@dataclass(frozen=True)
class Result:
    """The result of a statement.

    Args:
        tag: what it did, such as `SET`; of rows `SELECT`, to which their number is added.
        columns: None where it gives no rows.
        notices: lines for people beside it.
        warnings: the same, of what was not done.
        parameters: settings that changed, and of which clients are told.
        forgets: the prepared statement that is forgotten, '' for all; None for none.
    """

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    forgets: str | None = None


@dataclass(frozen=True)
class Plan:
    """What a statement would do; making it spends nothing and changes nothing.

    Args:
        columns: of its rows, by the text alone; None where it gives none.
        run: does it, with literals for its parameters.
        survives: whether it runs in a transaction that failed, as ROLLBACK does.
    """

    columns: Callable[[], tuple[Column, ...] | None]
    run: Callable[[Sequence[Literal]], Result]
    survives: bool = False
