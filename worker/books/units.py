"""Whether the numbers of an attach are those of the unit of privacy that it names.

The line of an attach names the unit in the dataset's facts, and beside it in plain numbers how many
records of a person count, and how they may be spread. A loss is reckoned by these numbers. Where
they are fewer than the unit has, every loss comes out too low.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from worker.books.periods import Spread


def misfit(details: Mapping[str, Any], relation: str) -> str:
    """What the numbers of an attach have otherwise than its unit; '' if they go together."""
    facts = json.loads(str(details.get("meta") or "{}"))
    kinds = [one.get("kind") for one in facts.get("domain", {}).get("attributes", ())]
    if "period" not in kinds or not {"sizes", "records_per_person"} <= details.keys():
        return ""
    unit, axis = facts.get("unit", {}), kinds.index("period")
    n_periods = [int(size) for size in str(details["sizes"]).split()][axis]
    k = int(details["records_per_person"])
    m = int(unit.get("per_period") or k)
    if unit.get("protects") == "person-unbounded" and k != m * n_periods:
        return f"unit person-unbounded has {m * n_periods} records of a person, not {k}"
    keeps = relation == "replace-one" and unit.get("replaced") == "same-period"
    spread = Spread(axis, min(m, k), keeps) if m < k or keeps else None
    return "" if Spread.of(details) == spread else "a person's records are spread otherwise"
