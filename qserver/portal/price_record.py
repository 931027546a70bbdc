"""The question that a price was shown for, so that no other question is paid at that price.

A form contains the mark of the priced question. If the form was changed before it is sent, the
new price is shown first. Pages with scripts prevent this case.
"""

from __future__ import annotations

from hashlib import sha256

from werkzeug.datastructures import MultiDict

MARK_FIELD = "priced"
LENGTH_FIELD = "priced_length"
_DIGITS = 32


def mark_of(fields: str) -> str:
    """A short digest of a form's fields."""
    return sha256(fields.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def is_as_priced(form: MultiDict[str, str], mark: str, *, length: str = "") -> bool:
    """Whether a form still asks the question that was priced; a form without a price may be sent.

    Args:
        mark: of what the form says; `length` where a price is for one length.
    """
    if MARK_FIELD not in form:
        return True
    return form[MARK_FIELD] == mark and form.get(LENGTH_FIELD, "") == length
