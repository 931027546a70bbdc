"""A claim: a query of the owner's, a width, and how well it may be known within such a width."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from qserver.errors import ConfigError, InputError
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.query.numbers import exact_number
from qserver.query.structured import parse_query

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
