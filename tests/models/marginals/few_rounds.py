"""A limit for the work of an estimate, so that a test can say how good it is by then."""

from __future__ import annotations

from qserver.models.marginals import estimate as by_estimate
from qserver.models.marginals.fit.consensus import agree


def limit_rounds(monkeypatch, most):
    """Have every consensus of an estimate end after so many rounds."""

    def limited(seen, **keywords):
        keywords["max_rounds"] = min(most, keywords.get("max_rounds", most))
        return agree(seen, **keywords)

    monkeypatch.setattr(by_estimate, "agree", limited)
