"""Which facts of people go together: one rule for what is asked for and for what was stored."""

from __future__ import annotations

from qserver.errors import ConfigError
from qserver.query.domain import Domain
from qserver.records.charge import Relation
from qserver.records.people.unit import THE_PERSON, Unit

MAX_RECORDS = 10**6


def check_together(
    unit: Unit, *, records_per_person: int, domain: Domain, relation: Relation, enforced: bool
) -> None:
    """Raise ConfigError, which names the fact, unless these facts of a dataset go together.

    Args:
        records_per_person: k.
        enforced: whether a column of the file names the person, so that k and m are enforced.
    """
    k, axis = records_per_person, domain.period_axis
    if not 1 <= k <= MAX_RECORDS:
        raise ConfigError("records_per_person", "be from 1 to 10^6", k)
    if axis is None:
        if unit != THE_PERSON:
            raise ConfigError("unit", "be left out for a domain without periods")
        return
    _check_numbers(unit, k, domain.sizes[axis])
    _check_replaced(unit, relation)
    # With k in all, a value outside the domain would drop a record, and let a later one in.
    if unit.protects == "person" and unit.replaced == "same-period" and enforced:
        _check_values(domain)


def _check_numbers(unit: Unit, k: int, n_periods: int) -> None:
    in_all = unit.most_together(k, n_periods)
    if k != in_all:
        raise ConfigError(
            "records_per_person",
            f"be {in_all} for unit `{unit.protects}`: records_per_period in every period",
            k,
        )
    m = unit.most_in_period(k)
    if m > k:
        raise ConfigError("records_per_period", "be from 1 to records_per_person", m)
    if unit.protects == "person" and k > m * n_periods:
        raise ConfigError(
            "records_per_person",
            f"be at most {m * n_periods}, which is records_per_period in every period",
            k,
            hint="For no bound in all say --unit person-unbounded.",
        )


def _check_replaced(unit: Unit, relation: Relation) -> None:
    if relation != "replace-one":
        if unit.replaced != THE_PERSON.replaced:
            raise ConfigError("replaced", "be given with neighbours `replace-one` only")
    elif unit.protects == "person-period" and unit.replaced != "same-period":
        raise ConfigError("replaced", "be `same-period` for unit `person-period`")


def _check_values(domain: Domain) -> None:
    dropping = [a.name for a in domain.attributes if not (a.is_period or a.is_total)]
    if dropping:
        raise ConfigError(
            "replaced",
            "be `any-period`, unless no value outside the domain drops a record",
            hint=f"Let `outside` be `clamp` or `other` and `missing` be `other` for "
            f"{', '.join(dropping)}.",
        )
