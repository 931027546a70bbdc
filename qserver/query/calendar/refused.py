"""What is refused of periods."""

from __future__ import annotations

from typing import Any

from qserver.errors import InputError, QServerError


class PeriodNotSealedError(InputError):
    """A question names a period whose data have not arrived yet.

    Args:
        last: the last sealed period; '' where none is sealed.
    """

    code = "period_not_sealed"

    def __init__(self, name: str, value: object = ..., *, last: str = "") -> None:
        self.last = last
        hint = f"The last sealed one is {last}." if last else "No period is sealed yet."
        super().__init__(name, "name periods that are sealed", value, hint=hint)


class PeriodRetiredError(QServerError):
    """An answer needs fresh noise about periods whose records are erased.

    Args:
        attribute: the attribute of periods.
        first_kept: the first period whose records are kept.
    """

    code = "period_retired"

    def __init__(self, *, attribute: str, first_kept: str) -> None:
        self.attribute, self.first_kept = attribute, first_kept
        # The best interval that costs nothing, or None; of a workload a tuple of these.
        self.free: Any = None
        super().__init__(
            f"The records before {first_kept} are erased, so nothing more is measured about them. "
            f"Ask about `{attribute}` from {first_kept} on, or for an interval so long that what "
            "was released suffices."
        )
