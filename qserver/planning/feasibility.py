"""A plan that the ledger's quick bound would refuse, taken where a search shows that it may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.planner import Plan

P = TypeVar("P", bound=Plan)


def proven(plan: P, *, ledger: CellLedger, allowed_nano: int) -> P:
    """The plan, with a lower price where only that fits into what is allowed and it is proven.

    Args:
        ledger: the snapshot's charges.
        allowed_nano: what the snapshot may have spent in all, in nano-epsilon.
    """
    if plan.spent_after_nano <= allowed_nano:
        return plan
    after = ledger.within(plan.purchase.charges, allowed_nano)
    if after is None:
        return plan
    price = after - ledger.spent_nano
    paid = tuple(replace(p, price_nano=min(p.price_nano, price)) for p in plan.paid)
    return replace(plan, spent_after_nano=after, price_nano=price, paid=paid)
