"""How well anything may be known at most: the disclosure guard of a cell, and an owner's claims.

*The disclosure guard* is a bound on the knowledge of one cell's count. Assume that somebody knows
every other cell and finds every value of this cell's count equally likely. After the answers, one
value has probability tanh(loss / 2) at most: the answers distinguish neighbouring values by a
factor exp(loss), so the likeliest value has at most the share 1 / sum over integers j of exp(-loss
abs(j)). docs/guarantee.md has the proof, and the limits of it.

*A claim* is a query that an owner does not want to be known too well, as a public fact of a
dataset: the query, a width, and how well it may be known within such a width.

QServerError                      of `qserver.errors`
└── ClaimGuardError               a claim would be known better than the owner allows

How well a claim can be known at most, given how strongly answers tell shifted data apart:

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

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, nextafter
from typing import Any

import numpy as np

from qserver.errors import ConfigError, InputError, QServerError
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Domain
from qserver.query.exact_numbers import exact_number
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import NANO
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import ClaimStatus

MIN_CAP, MAX_CAP = 1e-6, 1 - 1e-6
_DIGITS = 40


def guard_nano(cap: float, law: NoiseLaw = LAPLACE) -> int:
    """The most that a cell may lose so that its count is known with at most probability `cap`.

    Args:
        cap: probability, from 1e-6 to 1 - 1e-6.
        law: of the noise.

    Returns:
        2 atanh(cap) = ln((1 + cap) / (1 - cap)), in 1e-9 epsilon, rounded down; under Gaussian
        noise the greatest rho whose `central_share` is at most `cap`, in 1e-9.

    Raises:
        ConfigError: `cap` is out of range.
    """
    if not MIN_CAP <= cap <= MAX_CAP:
        raise ConfigError("disclosure_cap", f"be from {MIN_CAP:g} to 1 - {MIN_CAP:g}", cap)
    if law.is_additive:
        return bisect_right(range(_MOST_RHO), cap, key=lambda rho: central_share(rho / NANO, 1)) - 1
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(cap)
        loss = ((1 + exact) / (1 - exact)).ln() * NANO
        # The logarithm is exact to 40 digits, far more than the 21 that are kept.
        return int(loss.to_integral_value(rounding=ROUND_FLOOR))


def known_at_most(loss_nano: int, law: NoiseLaw = LAPLACE) -> float:
    """Most probability with which the count of a cell with this loss can be known."""
    loss = loss_nano / NANO
    return central_share(loss, 1) if law.is_additive else math.tanh(loss / 2)


def central_share(rho: float, n: int) -> float:
    """The share of n neighbouring whole numbers j in the sum of exp(-rho (j - m)^2), rounded up.

    It bounds what anybody knows who knows all but the number j of some records, which move each
    row in proportion, and to whom all j are equally likely. Gaussian answers then have the
    probability exp(-rho (j - m)^2) times a constant, for some m, with rho the sum of what the rows
    cost at j = 1. The share is the greatest for m in the middle of the n: with m off by t, the
    terms x beside the middle and -x gain a factor cosh(2 rho x t) on the mean, which is more
    outside than inside. Answers that agree reach it.

    Args:
        rho: > 0, or 0 for a share of 0.
    """
    if rho == 0.0:
        return 0.0
    if n * math.sqrt(rho) > _ALL or n > _MOST_POINTS:
        return 1.0
    inside = math.fsum(np.exp(-rho * np.square(np.arange(n) - (n - 1) / 2)))
    # By Poisson's sum where the terms of the sum itself fall slowly.
    if rho >= 1.0:
        total = math.fsum(np.exp(-rho * np.square(np.arange(-_ALL, _ALL + 1) + (n - 1) % 2 / 2)))
    else:
        signs, k = (-1.0) ** (n - 1), np.arange(1, _ALL)
        terms = np.power(signs, k) * np.exp(-np.square(np.pi * k) / rho)
        total = math.sqrt(math.pi / rho) * (1.0 + 2.0 * math.fsum(terms))
    return min(1.0, inside / total * (1.0 + _ROUNDING))


# Beyond so many over the root of rho lies less than 1e-11 of a sum.
_ALL, _ROUNDING, _MOST_RHO, _MOST_POINTS = 12, 1e-11, 1 << 35, 1 << 20


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
    kept = ("claim", "width", "before", "after", "cap")

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
        """The public facts by name."""
        return {name: getattr(self, name) for name in self.kept}


MIN_P, MAX_P = 1e-6, 1 - 1e-6
MAX_CLAIMS = 16
"""Each claim is checked for each spend, in some milliseconds to some tenths of a second."""
_MEMBERS = ("name", "query", "width", "p")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,63}\Z")


@dataclass(frozen=True)
class Claim:
    """That `query` lies in [a, a + width), for any a, must not be known better than with `p`.

    Args:
        name: one of its own among the dataset's claims.
        query: the query's JSON, as a question of HTTP has it.
        width: in the query's unit, as a decimal or a fraction; > 0.
        p: probability, from 1e-6 to 1 - 1e-6.

    Raises:
        ConfigError: a value is out of range.
    """

    name: str
    query: str
    width: str
    p: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.match(self.name):
            condition = "be 1 to 64 letters, digits, spaces, `_`, `.` or `-`"
            raise ConfigError("claims.name", condition, self.name)
        if self.exact_width <= 0:
            raise ConfigError("claims.width", "be more than 0", self.width)
        is_number = isinstance(self.p, float | int) and not isinstance(self.p, bool)
        if not is_number or not MIN_P <= self.p <= MAX_P:
            raise ConfigError("claims.p", f"be from {MIN_P:g} to 1 - {MIN_P:g}", self.p)

    @property
    def exact_width(self) -> Fraction:
        """The width."""
        return exact_number(self.width, "claims.width", ConfigError)

    @property
    def query_document(self) -> Any:
        """The query as plain JSON values."""
        return json.loads(self.query)

    def row(self, domain: Domain) -> LinearQuery:
        """The claimed query on a domain.

        Raises:
            QueryError, CapacityError: it is not a question on this domain.
        """
        return _row(self.query, domain)

    def status(self, known: float) -> ClaimStatus:
        """What a dataset shows of it, where it can be known so well now."""
        return ClaimStatus(self.name, self.query_document, float(self.exact_width), self.p, known)

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON values, as an owner writes them."""
        plain = {"name": self.name, "query": self.query_document}
        return {**plain, "width": self.width, "p": self.p}

    @classmethod
    def from_plain(cls, plain: object, *, place: str = "claims") -> Claim:
        """The claim in plain JSON values.

        Raises:
            ConfigError: it is none; the message names the place.
        """
        if not isinstance(plain, Mapping) or set(plain) != set(_MEMBERS):
            raise ConfigError(place, "be an object with `name`, `query`, `width` and `p`")
        try:
            width = str(exact_number(plain["width"], "claims.width", ConfigError))
            query = json.dumps(plain["query"], sort_keys=True)
            return cls(plain["name"], query, width, plain["p"])
        except InputError as exc:
            raise ConfigError(f"{place}.{exc.name.rpartition('.')[2]}", exc.condition) from exc


@lru_cache(maxsize=64)
def _row(query: str, domain: Domain) -> LinearQuery:
    return parse_query(json.loads(query), domain, name="claims.query")


def claims_json(claims: Sequence[Claim]) -> str:
    """Claims as JSON text."""
    return json.dumps([claim.to_plain() for claim in claims])


def claims_from_json(text: str) -> tuple[Claim, ...]:
    """The claims that `claims_json` wrote; ConfigError or ValueError."""
    return claims_from_plain(json.loads(text))


def claims_from_plain(plain: object) -> tuple[Claim, ...]:
    """The claims that an owner's file holds: a list of them, or one.

    Raises:
        ConfigError: one is wrong, or two have one name; the message names the place.
    """
    found = plain if isinstance(plain, Sequence) and not isinstance(plain, str) else [plain]
    if len(found) > MAX_CLAIMS:
        raise ConfigError("claims", f"be at most {MAX_CLAIMS}", len(found))
    claims = tuple(Claim.from_plain(one, place=f"claims[{i}]") for i, one in enumerate(found))
    if len({claim.name for claim in claims}) < len(claims):
        raise ConfigError("claims", "have a name of its own each")
    return claims


_LOSS_STEPS = 10**12


def known_within(
    loss_nano: Fraction | int, *, spacing: Fraction, width: Fraction, law: NoiseLaw = LAPLACE
) -> float:
    """Most probability of the claimed query lying in any half-open interval of this width.

    Args:
        loss_nano: of a step along the direction, in 1e-9 epsilon; >= 0.
        spacing: what a step changes the query by; > 0.
        width: of the interval, in the query's unit; > 0.

    Returns:
        The bound above, rounded up.
    """
    n = ceil(width / spacing)
    if law.is_additive:
        return central_share(float(loss_nano) / NANO, n)
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
