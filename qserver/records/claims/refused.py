"""The refusal of an answer that would let a claim be known too well.

QServerError                      of `qserver.errors`
└── ClaimGuardError               a claim would be known better than the owner allows
"""

from __future__ import annotations

from typing import Any

from qserver.errors import QServerError

FACTS = ("claim", "width", "before", "after", "cap")


class ClaimGuardError(QServerError):
    """The answer would let a claim be known better than the dataset's owner allows.

    Args:
        claim: its name.
        width: of the claim's interval.
        before: most probability at which the claimed query can be known to lie within any interval
            of this width now.
        after: the same after the answer, more than `cap`.
        cap: the owner's cap, a probability.
    """

    code = "claim_guard"

    def __init__(
        self, *, claim: str, width: float, before: float, after: float, cap: float
    ) -> None:
        self.claim, self.width, self.cap = claim, width, cap
        self.before, self.after = before, after
        # The best interval that costs nothing, or None; of a workload a tuple of these.
        self.free: Any = None
        super().__init__(
            f"The claim `{claim}` may be known within a width of {width:.12g} with a probability "
            f"of at most {cap:.6g}; the answer would raise the bound from {before:.6g} to "
            f"{after:.6g}. Ask for a longer interval, for less confidence, or with "
            "`measure`: `only_this`."
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The public facts, by name."""
        return {name: getattr(self, name) for name in FACTS}
