"""The unit of privacy that an owner declares, checked against the domain."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.errors import ConfigError
from qserver.query.domain import Domain
from qserver.records.charge import Relation
from qserver.records.people.unit import THE_PERSON, Protects, Replaced, Unit

MAX_RECORDS = 10**6


@dataclass(frozen=True)
class Declared:
    """What is protected of a person.

    Args:
        records_per_person: k, most records that count together.
    """

    unit: Unit
    records_per_person: int


@dataclass(frozen=True)
class Words:
    """What the owner said of people; None where nothing was said.

    Args:
        enforced: whether a column of the file names the person, so that k and m are enforced.
    """

    protects: Protects | None = None
    records_per_person: int | None = None
    records_per_period: int | None = None
    replaced: Replaced | None = None
    enforced: bool = False

    def declared(self, domain: Domain, relation: Relation) -> Declared:
        """The unit that these words mean for a dataset.

        Raises:
            ConfigError: they do not go together, or a number is missing that must be said.
        """
        axis = domain.period_axis
        if axis is None:
            return self._without_periods()
        if self.replaced is not None and relation != "replace-one":
            raise ConfigError("replaced", "be given with neighbours `replace-one` only")
        match self.protects:
            case "person-unbounded":
                return self._unbounded(domain.sizes[axis])
            case "person-period":
                return self._one_period(relation)
            case _:
                return self._person(domain, domain.sizes[axis])

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
        return Declared(unit, m * n_periods)

    def _one_period(self, relation: Relation) -> Declared:
        if self.records_per_period is not None:
            raise ConfigError(
                "records_per_period",
                "be left out for unit `person-period`",
                hint="Say with --records-per-person how many records of a period count.",
            )
        if self.replaced == "any-period":
            raise ConfigError("replaced", "be `same-period` for unit `person-period`")
        same: Replaced = "same-period" if relation == "replace-one" else "any-period"
        return Declared(Unit("person-period", None, same), self._k(default=None))

    def _person(self, domain: Domain, n_periods: int) -> Declared:
        k, m = self._k(default=None), self.records_per_period
        if m is not None and not 1 <= m <= k:
            raise ConfigError("records_per_period", "be from 1 to records_per_person", m)
        if m is not None and k > m * n_periods:
            raise ConfigError(
                "records_per_person",
                f"be at most {m * n_periods}, which is records_per_period in every period",
                k,
                hint="For no bound in all say --unit person-unbounded.",
            )
        if self.replaced == "same-period" and self.enforced:
            self._check_values(domain)
        return Declared(Unit("person", m if m != k else None, self.replaced or "any-period"), k)

    @staticmethod
    def _check_values(domain: Domain) -> None:
        """A value outside the domain would drop a record, and so let a later one in."""
        dropping = [a.name for a in domain.attributes if not (a.is_period or a.is_total)]
        if dropping:
            raise ConfigError(
                "replaced",
                "be `any-period`, unless no value outside the domain drops a record",
                hint=f"Let `outside` be `clamp` or `other` and `missing` be `other` for "
                f"{', '.join(dropping)}.",
            )

    @property
    def _meaning_of_k(self) -> str:
        """What K says, and what becomes of a person who has more."""
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
        if not 1 <= k <= MAX_RECORDS:
            raise ConfigError("records_per_person", "be from 1 to 10^6", k)
        return k
