"""How well a claim can be known at most, given how strongly answers tell shifted data apart.

Let u be a whole vector over cells, d > 0 the claimed query of u, and `loss` such that the answers
are at most exp(loss * abs(j)) times as likely for the counts x + j u as for x, for every whole j.
On a line x + Z u the query takes the values v + d Z, of which [a, a + width) has n = ceil(width/d)
at most, next to one another. Under a flat prior the posterior weights p_j on the line obey
p_j >= r^abs(j - k) p_k with r = exp(-loss). Let A and B be the weights next to the n, on the left
and on the right. Outside there is at least (A + B) / (1 - r). Of the n, let the first k be at most
A r^-j and the others B r^-j, j counted from their end: inside there is at most
(A (r^-k - 1) + B (r^-(n - k) - 1)) / (1 - r). With k = n/2 the share of the n is at most
1 - r^(n/2). For odd n take the mean of k = (n + 1)/2 and k = (n - 1)/2: the share is at most
1 - 2 r^((n + 1)/2) / (1 + r), which is more than 1 - r^(n/2). Both are attained, and at least
1 - exp(-loss width / 2d), the bound for real counts. docs/guarantee.md says what is assumed.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from math import ceil, inf, nextafter

from qserver.records.charge import NANO

_DIGITS = 40
_LOSS_STEPS = 10**12


def known_within(loss_nano: Fraction | int, *, spacing: Fraction, width: Fraction) -> float:
    """Most probability of the claimed query lying in any half-open interval of this width.

    Args:
        loss_nano: of a step along the direction, in 1e-9 epsilon; >= 0.
        spacing: what a step changes the query by; > 0.
        width: of the interval, in the query's unit; > 0.

    Returns:
        The bound above, rounded up.
    """
    n = ceil(width / spacing)
    with localcontext() as context:
        context.prec = _DIGITS
        loss = Decimal(ceil(loss_nano * _LOSS_STEPS)) / (_LOSS_STEPS * NANO)
        if n % 2:
            kept = 2 * (-loss * (n + 1) / 2).exp() / (1 + (-loss).exp())
        else:
            kept = (-loss * n / 2).exp()
        # Each step is right to 40 digits, so a 10^-30th covers them all.
        context.rounding = ROUND_CEILING
        share = min(Decimal(1), 1 - kept + Decimal("1e-30"))
    if loss == 0:
        return 0.0
    found = float(share)
    return found if Decimal(found) >= share else nextafter(found, inf)
