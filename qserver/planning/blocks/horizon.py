"""Buy blocks at once where the owner expects many more questions until the limit.

Without a word of the owner's, blocks wait until rows have shown that questions return. An owner who
expects N questions has said so. Blocks replace the row of the n-th question that costs anything if

    scarce      Own rows of N questions would cost ten times the limit, if each cost as much as the
                middle one of those so far and all met in one cell. Otherwise rows would answer them
                all.
    bearable    They take at most n / (n + 2) of what is left of the limit: a third for the first
                question, which says little about the others.

The base is fitted to all questions so far at one precision: whatever is asked next is as likely
about any of them. The question's part of it is bought. If that part is not bearable, the bearable
part and a row are bought: a shorter length costs more. Without this, early questions too exact for
any base would use up the limit.
"""

from __future__ import annotations

from statistics import median

from qserver.planning.blocks.needed_part import Need, PurchaseOffer, Raises
from qserver.planning.blocks.scopes import Scope
from qserver.planning.blocks.star import fit_star, fitting
from qserver.planning.blocks.wants import Want
from qserver.planning.constants import PLANNER
from qserver.records.charge import NANO


def invested(
    need: Need, scope: Scope, direct: PurchaseOffer, *, expected: int, allowed_nano: int
) -> PurchaseOffer | None:
    """Blocks for a question and the expected ones; None to buy none.

    Args:
        scope: all questions that were paid for.
        direct: the cheapest way by rows alone.
        expected: N.
        allowed_nano: most that may be spent in all.
    """
    holdings, n_asked = need.holdings, len(scope.course.paid) + 1
    left = allowed_nano - holdings.ledger.spent_nano
    if expected <= n_asked or holdings.period_axis is not None:
        return None
    if expected * _usual_nano(need, scope) < PLANNER.scarce * allowed_nano:
        return None
    raises = _needed(need, scope)
    if not raises:
        return None
    offer, most = need.bought(raises), left * n_asked // (n_asked + 2)
    if offer.price_nano <= most:
        return offer
    bearable = _scaled(need, raises, min(most, left - direct.price_nano), offer.price_nano)
    return need.beside(bearable, direct) if bearable else None


def _usual_nano(need: Need, scope: Scope) -> float:
    """Median alpha of the own rows of the latest questions, this one included."""
    latest = scope.course.paid[-PLANNER.sample :]
    asked = [(q.half_width, q.confidence) for q in latest]
    asked.append((need.want.half_width, need.want.confidence))
    law = need.holdings.engine.law
    usual = median(law.half_width_at(confidence) / half_width for half_width, confidence in asked)
    return NANO * law.charge_of_sharpness(usual)


def _needed(need: Need, scope: Scope) -> Raises | None:
    """The question's part of a base for all questions at its precision."""
    wanted = scope.bases(need.holdings).demand.with_want(need.want).wants
    alike = [
        Want.of(w.pattern, half_width=need.want.half_width, confidence=need.want.confidence)
        for w in wanted
    ]
    return need.part(fit_star(need.holdings, fitting(need.holdings, alike), effort=need.effort))


def _scaled(need: Need, raises: Raises, aim_nano: int, price_nano: int) -> Raises:
    """Scale the raises down to a price.

    The largest rise takes what rounding down leaves over: beside rows of any length the limit is
    used up to the same nano-epsilon, so that a shorter length never costs less.
    """
    before = need.holdings.engine.tables.alpha_nano
    rises = {b: a - before.get(b, 0) for b, a in raises.items()}
    more = {b: max(0, rise * aim_nano // price_nano) for b, rise in rises.items()}
    largest = max(rises, key=lambda b: (rises[b], b))
    cost = {b: int(need.holdings.cost_of(b)) for b in more}
    left_over = aim_nano - sum(rise * cost[b] for b, rise in more.items())
    more[largest] += max(0, left_over) // max(1, cost[largest])
    return {b: before.get(b, 0) + rise for b, rise in more.items() if rise > 0}
