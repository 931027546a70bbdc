"""Which question a price was shown for, so that no other one is paid with it.

The price's part of a form names the question; whoever changes the form and sends it is shown the
price of what it says now. Pages with scripts do not let it come to that.
"""

from __future__ import annotations

from hashlib import sha256

from werkzeug.datastructures import MultiDict

MARK_FIELD = "priced"
LENGTH_FIELD = "priced_length"
_DIGITS = 32


def mark_of(fields: str) -> str:
    """A short name of a form's fields."""
    return sha256(fields.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def is_as_priced(form: MultiDict[str, str], mark: str, *, length: str = "") -> bool:
    """Whether a form says what its price was shown for; one that names no price may be sent.

    Args:
        mark: of what the form says; `length` where a price is for one length.
    """
    if MARK_FIELD not in form:
        return True
    return form[MARK_FIELD] == mark and form.get(LENGTH_FIELD, "") == length
