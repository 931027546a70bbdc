"""The unit of privacy that an owner declares, checked against the domain and the other facts.

`check_together` is one rule for what is asked for and for what was stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.errors import ConfigError
from qserver.query.domain import Domain
from qserver.records.charge import Relation
from qserver.records.unit import THE_PERSON, Protects, Replaced, Unit

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


@dataclass(frozen=True)
class Declared:
    """What is protected of a person; `records_per_person`: k, most records that count together."""

    unit: Unit
    records_per_person: int


@dataclass(frozen=True)
class Words:
    """The owner's words on people; None where unsaid.

    Args:
        enforced: whether a column of the file names the person, so that k and m are enforced.
    """

    protects: Protects | None = None
    records_per_person: int | None = None
    records_per_period: int | None = None
    replaced: Replaced | None = None
    enforced: bool = False

    def declared(self, domain: Domain, relation: Relation) -> Declared:
        """The unit of privacy that these words mean for a dataset.

        Raises:
            ConfigError: they do not go together, or a number is missing that must be said.
        """
        axis = domain.period_axis
        if axis is None:
            found = self._without_periods()
        elif self.replaced is not None and relation != "replace-one":
            raise ConfigError("replaced", "be given with neighbours `replace-one` only")
        elif self.protects == "person-unbounded":
            found = self._unbounded(domain.sizes[axis])
        elif self.protects == "person-period":
            found = self._one_period(relation)
        else:
            found = self._person()
        check_together(
            found.unit,
            records_per_person=found.records_per_person,
            domain=domain,
            relation=relation,
            enforced=self.enforced,
        )
        return found

    def _without_periods(self) -> Declared:
        said = {
            "unit": self.protects not in (None, "person"),
            "records_per_period": self.records_per_period is not None,
            "replaced": self.replaced is not None,
        }
        for name, is_said in said.items():
            if is_said:
                raise ConfigError(
                    name, "be left out for a domain without an attribute of kind `period`"
                )
        return Declared(THE_PERSON, self._k(default=1))

    def _unbounded(self, n_periods: int) -> Declared:
        if self.records_per_person is not None:
            raise ConfigError(
                "records_per_person",
                "be left out for unit `person-unbounded`",
                hint="It has no bound in all; say --records-per-period.",
            )
        m = 1 if self.records_per_period is None else self.records_per_period
        most = MAX_RECORDS // n_periods
        if not 1 <= m <= most:
            raise ConfigError("records_per_period", f"be from 1 to {most} for so many periods", m)
        unit = Unit("person-unbounded", m, self.replaced or "any-period")
        return Declared(unit, unit.most_together(m, n_periods))

    def _one_period(self, relation: Relation) -> Declared:
        if self.records_per_period is not None:
            raise ConfigError(
                "records_per_period",
                "be left out for unit `person-period`",
                hint="Say with --records-per-person how many records of a period count.",
            )
        same: Replaced = "same-period" if relation == "replace-one" else "any-period"
        return Declared(Unit("person-period", None, self.replaced or same), self._k(default=None))

    def _person(self) -> Declared:
        k, m = self._k(default=None), self.records_per_period
        if m is not None and m < 1:
            raise ConfigError("records_per_period", "be from 1 to records_per_person", m)
        return Declared(Unit("person", m if m != k else None, self.replaced or "any-period"), k)

    @property
    def _meaning_of_k(self) -> str:
        """The meaning of K, and the fate of a person with more records."""
        of = "one period" if self.protects == "person-period" else "all periods together"
        then = (
            "later ones are dropped"
            if self.enforced
            else "whoever has more is protected less, unless --person-id enforces it"
        )
        return (
            f"--records-per-person K says the most records of one person in {of}: {then}. "
            "With --unit person-unbounded there is no bound in all."
        )

    def _k(self, *, default: int | None) -> int:
        k = default if self.records_per_person is None else self.records_per_person
        if k is None:
            raise ConfigError(
                "records_per_person",
                "be said for data with periods, where the same person may come again",
                hint=self._meaning_of_k,
            )
        return k
