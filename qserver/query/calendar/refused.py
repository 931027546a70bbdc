"""What is refused of periods."""

from __future__ import annotations

from qserver.errors import InputError


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
