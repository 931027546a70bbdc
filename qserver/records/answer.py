"""The server's replies: answers, offers, explanations, states. Frozen and public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from qserver.query.asking.after_looking import Ends, Selection
from qserver.query.requirement import Measure
from qserver.records.codec import ALWAYS
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.records.statement import OF_ESTIMATOR, ClaimStatus, Law, Simultaneous, Statement
from qserver.records.unit import SealedPeriods, UnitStatus

Source = Literal["history", "measured", "refined", "exact"]
JobState = Literal["queued", "running", "done", "failed"]
PlanKind = Literal["free", "exact", "fresh", "combined", "refined", "blocks"]
_DEAREST_FIRST: tuple[Source, ...] = ("measured", "refined", "history", "exact")


def dearest(sources: Iterable[Source]) -> Source:
    """The source that cost most."""
    among = set(sources)
    return next(source for source in _DEAREST_FIRST if source in among)


@dataclass(frozen=True)
class Answer:
    """An estimate with its credible interval.

    Args:
        estimate: the best unbiased estimate, in the query's units.
        low, high: ends of the interval at the asked confidence, rounded outward.
        confidence: as asked.
        confidence_attained: the probability of the best interval of the asked length, rounded down.
        source: `history`: nothing was spent; `measured`; `refined`: an earlier row was released
            again with less noise, for the difference; `exact`: zero on every record.
        charged_nano: cost of this question, in nano-epsilon.
        remaining_nano: remaining budget of the population.
        evidence: ids of the history's rows and tables used.
        weights: how the estimate's weights were found: direct, planned, stored, blue, tail, blocks,
            exact, independent.
        version: version of the history that the answer stands on.
        selected_from: the choice that the interval allows for; None if it holds by itself alone.
            `confidence_attained` is without it.
        statement: what the interval is a statement of.
        rest_nano: price of an `independent` answer of the asked length, where released answers
            disagree and the interval is longer than asked; else None.
        as_of: the last period that was counted, where data arrive over time; else ''.
        remarks: remarks on the answer, a sentence each: it is longer than asked, or counts
            records with missing values; those of a workload stand beside its answers.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    confidence_attained: float
    source: Source
    charged_nano: int
    remaining_nano: int
    evidence: tuple[int, ...]
    weights: str
    version: int
    selected_from: Selection | None = None
    statement: Statement = field(default=OF_ESTIMATOR, metadata=ALWAYS)
    rest_nano: int | None = None
    as_of: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high


@dataclass(frozen=True)
class WorkloadAnswer:
    """The answers of a workload, in the order of its questions.

    Args:
        answers: answers; the first that was not free has the price of all as its
            `epsilon_charged`.
        charged_nano: cost of the whole workload, in nano-epsilon.
        remaining_nano: remaining budget of the population.
        simultaneous: None if not asked for.
        version: version of the history that the answers stand on.
        ends: per question the ends for readings after looking at all of them; empty for one
            question, and where all intervals hold at once already.
        rest_nano: price of `independent` answers in place of all that are longer than asked; None
            if there are none, if it is unknown, and if all intervals hold at once.
        remarks: remarks on the answers, a sentence each: some are longer than asked, or count
            records with missing values.
    """

    answers: tuple[Answer, ...]
    charged_nano: int
    remaining_nano: int
    simultaneous: Simultaneous | None
    version: int
    ends: tuple[Ends, ...] = ()
    rest_nano: int | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelAnswer:
    """A learnt model; its parameters follow from the history up to `version` alone.

    Args:
        id: of the model.
        kind: such as `network`.
        charged_nano: cost of its tables, in nano-epsilon.
        remaining_nano: remaining budget of the population at that time.
        tables: ids of the tables of history that the model is made from.
        version: version of the history that it is made from; it never changes.
    """

    id: str
    kind: str
    charged_nano: int
    remaining_nano: int
    tables: tuple[int, ...]
    version: int


AnyAnswer = Answer | WorkloadAnswer | ModelAnswer


@dataclass(frozen=True)
class Offer:
    """What history says at a confidence, at no cost.

    Args:
        length: questions of this length are free; that of the interval where None. It goes by the
            estimate's error, and so it is another one where released answers disagree.
        law: `posterior`: given the released answers; `estimator`: of the estimate's error, whatever
            the released answers disagree about; `exact`: there is no noise.
    """

    low: float
    high: float
    confidence: float
    length: float | None = None
    law: Law = "estimator"

    @property
    def free_length(self) -> float:
        """Least length at which the question is free: that of `interval`, unless released answers
        disagree or after a choice."""
        return self.high - self.low if self.length is None else self.length

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    @property
    def estimate(self) -> float:
        """The middle of the interval, which is the unbiased estimate."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class CurvePoint:
    """The price of an answer with an interval of `length` (None: out of reach)."""

    length: float
    price_nano: int | None


@dataclass(frozen=True)
class OwnPrice:
    """The price of an answer in the asker's ledger, and the bounds of its allowance.

    Args:
        price_nano: rise of the asker's ledger, in nano-epsilon.
        affordable: whether the allowance and the pace permit it.
        more_at: Unix time, in seconds, at which the pace permits it; None if waiting does not
            help.
        spent_nano: the asker's ledger now.
        today_nano: its rise within the last 24 hours.
        limit_nano: allowance of the asker; None for no bound.
        pace_nano: most that it may rise within any 24 hours; None for no bound.
    """

    price_nano: int
    affordable: bool
    more_at: int | None
    spent_nano: int
    today_nano: int
    limit_nano: int | None
    pace_nano: int | None


@dataclass(frozen=True)
class BothChoices:
    """The prices of a question or a workload under both choices of what may be measured.

    Args:
        chosen: the choice described by the other fields.
        only_this_nano: price if nothing is measured for later questions.
        auto_nano: price if the planner may also buy tables for later questions.
        buys: tables that `auto` buys and later questions use, in words; empty for none.
        independent_nano: price of the question with `independent`: fresh noise, combined with
            nothing; None for several questions, or if no noise is fine enough.
    """

    chosen: Measure
    only_this_nano: int
    auto_nano: int
    buys: str
    independent_nano: int | None = None


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The price of what was asked; nothing was spent.

    Args:
        kind: `free`; `exact`: public; `fresh`: a new measurement alone; `combined`: together with
            history; `refined`: rows of history get less noise; `blocks`: tables that will answer
            later questions too.
        price_nano: rise of the ledger, in nano-epsilon.
        most_nano: most that may be charged: if released answers disagree and the interval is
            longer than asked, refining may cost up to this.
        affordable: whether the remaining budget covers the price.
        measure: prices of both choices of `measure`.
        own: the asker's own allowance; None where only the budget bounds it.
        protected: whose loss the price is, in words, if the domain has periods; else None.
    """

    kind: PlanKind
    price_nano: int
    most_nano: int
    remaining_nano: int
    affordable: bool
    measure: BothChoices
    version: int
    own: OwnPrice | None = None
    protected: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Explained(Priced):
    """The price of what was asked and the way to find it."""

    rows: tuple[PlannedRow, ...]
    tables: tuple[PlannedTable, ...]

    @property
    def plan(self) -> tuple[PlannedRow | PlannedTable, ...]:
        """Rows, then tables, that would be measured or refined."""
        return (*self.rows, *self.tables)


@dataclass(frozen=True, kw_only=True)
class Explanation(_Explained):
    """The price of an answer.

    Args:
        free: free answer from history, its `interval` by `law`; None for none.
        curve: prices of shorter and longer intervals at the same confidence, shorter ones first. A
            length that costs more than a shorter one is left out, even the asked one.
        sensitivity: S of the query.
    """

    free: Offer | None
    curve: tuple[CurvePoint, ...]
    sensitivity: float
    sensitivity_exact: bool


@dataclass(frozen=True)
class FactorPoint:
    """The price of a workload with all lengths times `factor` (None: out of reach)."""

    factor: float
    price_nano: int | None


@dataclass(frozen=True, kw_only=True)
class WorkloadExplanation(_Explained):
    """The price of a workload; both choices of what may be measured cost the same for it.

    Args:
        price_apart_nano: sum of the prices of the questions if each was asked alone now; None if
            there was no time to plan them all.
        free: per question the free answer from history, by the `law` that it names; None for none.
        curve: prices of shorter and longer intervals, all by one factor, without those that cost
            more than shorter ones.
        measure: prices of both choices of `measure`: equal, since a workload buys nothing for
            other questions.
        simultaneous: None if not asked for.
    """

    price_apart_nano: int | None
    free: tuple[Offer | None, ...]
    curve: tuple[FactorPoint, ...]
    simultaneous: Simultaneous | None


@dataclass(frozen=True)
class Probability:
    """A posterior probability from history alone, and the history's version."""

    probability: float
    version: int
    statement: Statement = OF_ESTIMATOR


@dataclass(frozen=True)
class JobStatus:
    """The state of a job; `result` when done, `problem` (code, message, facts) when failed."""

    id: str
    state: JobState
    dataset: str
    result: AnyAnswer | None = None
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Guard:
    """A dataset's disclosure guard.

    Args:
        cap: largest allowed probability of knowing the count of a cell.
        allowed_nano: the most that a cell may lose: 2 atanh(cap).
        loss_nano: greatest loss of a cell so far.
        known: bound on that probability now.
        binds: false if the limit is reached first.
    """

    cap: float
    allowed_nano: int
    loss_nano: int
    known: float
    binds: bool


@dataclass(frozen=True)
class Zcdp:
    """A population under zero-concentrated privacy: rho is charged, and shown as epsilon.

    Args:
        delta: at which; with that probability somebody may lose more than epsilon.
        limit_rho_nano, spent_rho_nano: of the population, in 1e-9 rho.
    """

    delta: float
    limit_rho_nano: int
    spent_rho_nano: int


@dataclass(frozen=True)
class DatasetStatus:
    """The public face of a dataset: schema, guarantee and budget.

    Args:
        population: the people, who own the limit; datasets may share it.
        snapshot: random public id of the data as attached.
        relation: `add-remove` or `replace-one`.
        records_per_person: k; `records_verified` tells whether attach enforced it.
        records_verified: whether attach enforced `records_per_person`.
        limit_nano, spent_nano: of the population, in nano-epsilon.
        remaining_nano: budget that this dataset may still spend.
        guard: the bound on knowledge of a cell; None without a guard.
        earlier_snapshots: snapshots that were replaced, oldest first; their history stays readable.
        phi: share of the tables' price that rows as asked may cost before tables are bought.
        capacity: most records that it may ever have, as its owner declared; None if undeclared.
            The time of an answer follows from it, not from the number of records.
        measure: default of a question's `measure`: `only_this`, or `auto`, which may also buy
            tables for later questions.
        version: of the history.
        worker_alive: whether a worker can measure now.
        unit: part of a person's records that is protected, if the domain has periods; else None.
        periods: periods, where data arrive over time; else None. Only sealed periods are counted.
        time: attribute that the owner calls the time, where all data are there; else None. Every
            table tells its values apart.
        expected: about how many questions its owner expects until the limit; 0 if undeclared.
    """

    name: str
    population: str
    snapshot: str
    domain: Mapping[str, Any]
    n_cells: int
    relation: str
    records_per_person: int
    records_verified: bool
    limit_nano: int
    spent_nano: int
    remaining_nano: int
    guard: Guard | None
    claims: tuple[ClaimStatus, ...]
    earlier_snapshots: tuple[str, ...]
    phi: float
    capacity: int | None
    measure: Measure
    version: int
    worker_alive: bool
    unit: UnitStatus | None = None
    periods: SealedPeriods | None = None
    time: str = ""
    expected: int = 0
    zcdp: Zcdp | None = None

    @property
    def delta(self) -> float | None:
        """At which amounts are epsilon; None under pure privacy."""
        return None if self.zcdp is None else self.zcdp.delta


@dataclass(frozen=True)
class LedgerReport:
    """The use of the budget.

    Args:
        remaining_nano: budget that this dataset may still spend.
        loss_nano: largest loss of a cell in the asked set, in epsilon; a sound upper bound.
        by_value: for the asked attribute: the largest loss over the cells of each value.
    """

    limit_nano: int
    spent_nano: int
    remaining_nano: int
    relation: str
    n_charges: int
    loss_nano: int
    by_value: Mapping[str, int] | None = None
