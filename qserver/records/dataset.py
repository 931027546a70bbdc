"""The public facts of a dataset, fixed when it was attached."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from qserver.errors import InputError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.requirement import DEFAULT_PHI, Measure, measure_of
from qserver.query.sealed_periods import sealed_domain
from qserver.records.charge import Relation
from qserver.records.claim import Claim, claims_from_plain, guard_nano
from qserver.records.codec import ALWAYS, as_, plain, read
from qserver.records.declared_unit import check_together
from qserver.records.privacy import Privacy
from qserver.records.privacy.conversion import Shown, check_privacy
from qserver.records.privacy.noise_law import NoiseLaw, law_of
from qserver.records.unit import THE_PERSON, SealedPeriods, Unit, UnitStatus

MOST_RECORDS: Final = 10**10
"""Most records that a dataset may have if its owner declares no capacity."""

MOST_EXPECTED: Final = 10**9
"""Most questions that an owner may expect."""


def expected_of(found: object) -> int:
    """A number of questions that an owner may expect, 0 for none; InputError."""
    if type(found) is not int or not 0 <= found <= MOST_EXPECTED:
        raise InputError("expected", f"be a whole number from 0 to {MOST_EXPECTED:,}", found)
    return found


@dataclass(frozen=True)
class Growth:
    """Data that arrive over time, period by period; public.

    Args:
        attribute: the domain's attribute of periods. Its first ones are sealed: they have their
            data, which never change.
        capacity: most records of one period. The time of an answer follows from it.
    """

    attribute: str
    capacity: int


@dataclass(frozen=True)
class DatasetMeta:
    """The public facts of a dataset, fixed when it was attached.

    Args:
        records_per_person: k; see `Unit` where there are periods.
        records_verified: whether attach enforced k.
        phi: budget for single rows before tables are bought instead, as a part of the price of the
            best tables. Small for datasets that will be asked for years.
        disclosure_cap: most probability at which a cell's count may be known; None for no guard.
        disjoint_from: snapshots with which it has no person in common, by the owner's word.
        capacity: most records that it may ever have, as its owner declared; the time of an answer
            follows from it in place of their number. None if nobody did.
        measure: what is measured for a question whose asker did not choose, unless the owner has
            changed that since.
        demand_of: earlier snapshots, each with the number of its paid questions that counted when
            this one began: plans are made for them too. They are public.
        unit: which records of a person count together, for a domain with periods.
        growth: how data arrive over time; None where all are there.
        time: the ordered attribute that tables tell apart value by value, where all data are there;
            '' for none.
        expected: about how many questions are expected until the limit, unless the owner has
            changed that since; 0 where nobody said.
        privacy: what the population's limit bounds, the same for all its datasets.
        delta: at which rho is shown as epsilon; None under pure privacy.

    Raises:
        InputError: `measure` is unknown, `expected` or `delta` out of range, or facts of people or
            of privacy do not go together: no price follows from such facts.
    """

    name: str
    population: str
    snapshot: str
    domain: Domain = field(metadata=as_(last=3))
    relation: Relation
    records_per_person: int
    records_verified: bool
    phi: float = field(default=DEFAULT_PHI, metadata=ALWAYS)
    disclosure_cap: float | None = field(default=None, metadata=ALWAYS)
    disjoint_from: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    capacity: int | None = None
    measure: Measure = "auto"
    demand_of: tuple[tuple[str, int], ...] = ()
    claims: tuple[Claim, ...] = field(default=(), metadata=as_(last=1))
    unit: Unit = field(default=THE_PERSON, metadata=as_(last=2))
    growth: Growth | None = None
    time: str = ""
    expected: int = 0
    privacy: Privacy = "pure"
    delta: Fraction | None = None

    def __post_init__(self) -> None:
        measure_of(self.measure)
        expected_of(self.expected)
        check_privacy(self.privacy, self.delta)
        check_together(
            self.unit,
            records_per_person=self.records_per_person,
            domain=self.domain,
            relation=self.relation,
            enforced=self.records_verified,
        )

    @property
    def law(self) -> NoiseLaw:
        """Of the noise of its answers."""
        return law_of(self.privacy)

    @property
    def shown(self) -> Shown:
        """How losses are shown."""
        return Shown(self.delta)

    @cached_property
    def guard_nano(self) -> int | None:
        """The most that a cell may lose, in nano-epsilon; None if only the limit counts."""
        return None if self.disclosure_cap is None else guard_nano(self.disclosure_cap, self.law)

    @property
    def most_records(self) -> int:
        """The public cap on the number of records; intervals allow for it."""
        if self.growth is not None:
            return self.growth.capacity * self.n_periods
        return MOST_RECORDS if self.capacity is None else self.capacity

    @property
    def most_together(self) -> int:
        """k, most records of one person that count together."""
        axis, k = self.domain.period_axis, self.records_per_person
        return k if axis is None else self.unit.most_together(k, self.domain.sizes[axis])

    @property
    def unit_status(self) -> UnitStatus | None:
        """What is protected of a person; None for a domain without periods."""
        if self.domain.period_axis is None:
            return None
        return self.unit.status(self.records_per_person)

    @property
    def period_axis(self) -> int:
        """Position of the attribute whose periods are sealed one after the other.

        Raises:
            ValueError: the data do not arrive over time.
        """
        return self.domain.names.index("" if self.growth is None else self.growth.attribute)

    @property
    def apart_axis(self) -> int | None:
        """Position of the attribute whose values every table tells apart; None for none."""
        if self.growth is not None:
            return self.period_axis
        return self.domain.names.index(self.time) if self.time else None

    def kept_periods(self, n_sealed: int | None, n_retired: int = 0) -> range:
        """The values of `apart_axis` that can be counted while so many periods are sealed, and of
        so many the records erased."""
        if self.growth is not None or self.apart_axis is None:
            return range(n_retired, n_sealed or 0)
        return range(self.domain.sizes[self.apart_axis])

    @property
    def n_periods(self) -> int:
        """Periods that are declared, sealed or not; 0 where data do not arrive over time."""
        return 0 if self.growth is None else self.domain.sizes[self.period_axis]

    def sealed_periods(self, n_sealed: int | None, n_retired: int = 0) -> SealedPeriods | None:
        """The state of the periods while so many are sealed, and of so many the records erased;
        None where all data are there."""
        if self.growth is None or n_sealed is None:
            return None
        names = self.domain.attributes[self.period_axis].value_names
        last = names[n_sealed - 1] if n_sealed else None
        growth = self.growth
        first = names[n_retired] if n_retired else None
        return SealedPeriods(
            growth.attribute, n_sealed, last, len(names), growth.capacity, n_retired, first
        )

    def domain_at(self, n_sealed: int | None) -> Domain:
        """The domain while so many periods are sealed, by which questions are read."""
        if self.growth is None or n_sealed is None:
            return self.domain
        return sealed_domain(self.domain, self.growth.attribute, n_sealed)

    @property
    def has_null_cell(self) -> bool:
        """Whether a person's record may lie outside the domain, or be absent.

        If k is enforced, people own different numbers of records. To replace a person may then add
        or remove records, which equals a replacement by records of the null cell. So does a record
        of a period that is not sealed yet.
        """
        return self.records_verified or not self.domain.is_total or self.growth is not None

    @property
    def has_known_total(self) -> bool:
        """Whether neighbours, and so perhaps what is public, fix the number of records."""
        return self.relation == "replace-one" and not self.has_null_cell

    @cached_property
    def domain_document(self) -> dict[str, object]:
        """The domain as plain JSON values."""
        return domain_to_document(self.domain)

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(plain(self, {Domain: lambda _: self.domain_document}))

    @classmethod
    def from_json(cls, text: str) -> DatasetMeta:
        """The facts that `to_json` wrote; the same object for the same text."""
        return _from_json(text)


@lru_cache(maxsize=256)
def _from_json(text: str) -> DatasetMeta:
    found = json.loads(text)
    found["claims"] = claims_from_plain(found.get("claims", []))
    # Earlier versions kept cohorts and lineages, which charged too little: they are no pairs.
    return read(DatasetMeta, found, {Domain: domain_from_document, Claim: lambda claim: claim})
