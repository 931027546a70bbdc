"""The exception tree; imports nothing of the project but how values are shown.

QServerError
├── InputError                    the caller's input is wrong; names the field
│   ├── DomainError               a domain file or an attribute
│   ├── QueryError                a query or a condition
│   │   ├── SqlError              a place in a text of SQL
│   │   └── EngineError           an expression that the engine does not evaluate
│   ├── RequirementError          length, confidence, scales
│   ├── NetworkError              a Bayesian network, as BIF, edges or tables
│   └── ConfigError               a setting or a command-line argument
├── NotFoundError                 no such dataset, job, population
├── NotEstimableError             history cannot give this query
├── SnapshotReplacedError         the dataset has new data since the question was asked
├── BudgetExhaustedError          the least price exceeds what remains
│   └── AtMostError               the least price exceeds what its asker allows
├── AllowanceExhaustedError       the analyst's own allowance cannot pay
│   └── PaceExceededError         the analyst's own pace cannot pay today
├── AccessError                   who asks may not
│   ├── UnauthenticatedError      no token, or none that counts
│   └── RateLimitedError          too many requests; later again
├── DisclosureGuardError          a cell would be known better than the owner allows
├── IdempotencyError              an idempotency key was used with another body
├── StoreError                    Redis
│   ├── StoreUnavailableError     cannot be reached, or lost half-way
│   │   └── StoreKilledError      its process was killed while it started
│   ├── StoreUnsupportedError     server too old, or another schema version
│   ├── StoreNotDurableError      may lose or evict acknowledged writes
│   ├── StoreBehindError          knows less than the worker's journal
│   ├── StoreCorruptError         its files cannot be loaded without losing acknowledged writes
│   ├── StateInUseError           another server holds the state folder
│   ├── FencedError               the lease passed to another worker
│   └── StaleVersionError         the ledger moved since the plan was made
├── WorkerError                   the trusted side
│   ├── NoWorkerError             no worker is alive
│   ├── BusyError                 too many questions wait for a worker
│   ├── JournalError              the journal is corrupt, locked or from a newer version
│   ├── PrivateDataError          attach: the file or its columns cannot be used
│   ├── MeasurementError          constant public text; details stay in the worker's own log
│   ├── ClosedError               a backup was restored that nothing confirms; nothing was charged
│   ├── BooksError                journal, store and plan do not agree; nothing was charged
│   └── UnanswerableError         a plan was refused before it was charged: no answer comes of it
├── CapacityError                 a size bound of the server was passed
├── EvaluationError               a probability or half-width came out as no number
├── PortInUseError                another program listens on the port
└── ChildFailedError              a process of the server ended before it was of use

More: `client.errors`, `query.calendar`, `records.claim`. A class has a stable
`code` for clients, and its facts as attributes. No message shows a true count, a row, or part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qserver.text import cost_text, left_text, meant, printable, short_text


class QServerError(Exception):
    """Base of every error that qserver raises on purpose; `usual` is its text if none is given."""

    code = "internal"
    usual = ""
    kept: tuple[str, ...] = ()
    """The facts that make a refusal anew, and so are kept of one that ended a job."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.usual)


class InputError(QServerError):
    """Input that does not meet its condition: "`name` must CONDITION, got VALUE.", or a sentence.

    Args:
        name: the field, or the place in the document, such as ``query.where.age``; shown, and
            kept, up to 120 printable characters.
        condition: what was tested, as a verb phrase ("be a finite number > 0"); or a sentence about
            the user's own thing, without its full stop, that begins with no small letter
            ("`age` is stored in steps of 10; use a multiple of 10").
        value: what came instead; leave out when it is private, huge or absent.
        hint: one more sentence that says how to mend it.
    """

    code = "invalid_input"
    subject = "`{}`"
    """What must meet the condition; {} stands for the field."""
    place = "`{}`: "
    """What stands before a sentence."""

    def __init__(self, name: str, condition: str, value: object = ..., *, hint: str = "") -> None:
        self.name, self.condition, self.hint = printable(name), condition, hint
        shown = "" if value is ... else f", got {short_text(value)}"
        subject = f"{self.subject.format(self.name)} must "
        lead = self.place.format(self.name) if self.is_sentence else subject
        super().__init__(f"{lead}{condition}{shown}." + (f" {hint}" if hint else ""))

    @property
    def is_sentence(self) -> bool:
        """Whether the condition is a whole sentence, and no verb phrase about the field."""
        return not self.condition[:1].islower()

    def under(self, prefix: str) -> InputError:
        """The same error, its field placed below `prefix`."""
        moved = type(self).__new__(type(self))
        vars(moved).update(vars(self))
        moved.name = printable(f"{prefix}.{self.name}" if self.name else prefix)
        text = str(self).replace(f"`{self.name}`", f"`{moved.name}`", 1)
        Exception.__init__(moved, text)
        return moved


class DomainError(InputError):
    """A domain file or an attribute is wrong."""

    code = "invalid_domain"


class QueryError(InputError):
    """A query or one of its conditions is wrong."""

    code = "invalid_query"


class SqlError(QueryError):
    """Text of SQL cannot be answered; points at the place.

    Args:
        condition: as of every InputError, about the text.
        line, column: where, counted from 1.
        excerpt: the line, or the part of it around the place, and below it carets.
        hint: the nearest that can be answered, as a sentence.
        name: the field that holds the text.
        at_place: whether the message says the place; not where it is about the whole text.
    """

    code = "invalid_sql"
    subject = "The statement"
    place = ""

    def __init__(
        self,
        condition: str,
        *,
        line: int,
        column: int,
        excerpt: str,
        hint: str = "",
        name: str = "sql",
        at_place: bool = True,
    ) -> None:
        self.line, self.column, self.excerpt = line, column, excerpt
        place = f" (line {line}, column {column})" if at_place else ""
        super().__init__(name, condition + place, hint=hint)


class EngineError(QueryError):
    """An expression that the engine does not evaluate."""

    code = "not_calculable"


class RequirementError(InputError):
    """A length, confidence, scale or interval is out of range."""

    code = "invalid_requirement"


class NetworkError(InputError):
    """A Bayesian network is wrong: its text, its edges or its tables."""

    code = "invalid_network"


class ConfigError(InputError):
    """A setting or command-line argument is wrong."""

    code = "invalid_config"


class NotFoundError(QServerError):
    """No dataset, job or population of this name."""

    code = "not_found"

    def __init__(self, kind: str, name: str, *, among: Iterable[str] = ()) -> None:
        self.kind, self.name = kind, name
        hint = meant(name, among)
        super().__init__(f"No {kind} is called {short_text(name)}.{hint and f' {hint}'}")


class NotEstimableError(QServerError):
    """History holds no unbiased estimate of the query."""

    code = "not_estimable"
    usual = "The released history has no unbiased estimate of it."


class SnapshotReplacedError(QServerError):
    """The dataset has new data since the question was asked; nothing was charged."""

    code = "snapshot_replaced"
    usual = "The dataset has new data since the question was asked. Ask again."


class BudgetExhaustedError(QServerError):
    """The least price of the answer exceeds the budget that remains, both in 1e-9 epsilon."""

    code = "budget_exhausted"
    kept = ("price_nano", "remaining_nano")

    def __init__(self, *, price_nano: int, remaining_nano: int) -> None:
        self.price_nano, self.remaining_nano = price_nano, remaining_nano
        # The best free interval, or None; for a workload a tuple of these.
        self.free: Any = None
        super().__init__(
            f"The answer costs {cost_text(price_nano / 1e9)} epsilon and "
            f"{left_text(remaining_nano / 1e9)} remain. "
            "Ask for a longer interval or less confidence."
        )


class AtMostError(BudgetExhaustedError):
    """The price of the answer exceeds what its asker lets it cost, both in 1e-9 epsilon."""

    code = "over_at_most"

    def __init__(self, *, price_nano: int, remaining_nano: int) -> None:
        super().__init__(price_nano=price_nano, remaining_nano=remaining_nano)
        self.args = (
            f"The answer costs {cost_text(price_nano / 1e9)} epsilon, and it may cost "
            f"{left_text(remaining_nano / 1e9)} (AT MOST). Allow more, or ask for a longer "
            "interval or less confidence.",
        )


class AllowanceExhaustedError(QServerError):
    """The answer would pass the allowance that the owner set for its analyst.

    Args:
        price_nano, remaining_nano: of the analyst's own ledger, in 1e-9 epsilon.
        more_at: Unix time in seconds from when on it could be paid, or None: never.
    """

    code = "allowance_exhausted"
    kept = ("price_nano", "remaining_nano", "more_at")
    _whose = "remain of your allowance"

    def __init__(self, *, price_nano: int, remaining_nano: int, more_at: int | None = None) -> None:
        self.price_nano, self.remaining_nano = price_nano, remaining_nano
        self.more_at = more_at
        super().__init__(
            f"The answer costs you {cost_text(price_nano / 1e9)} epsilon and "
            f"{left_text(remaining_nano / 1e9)} {self._whose}."
        )


class PaceExceededError(AllowanceExhaustedError):
    """The answer would pass the pace, per 24 hours, that the owner set for its analyst."""

    code = "pace_exceeded"
    _whose = "remain of your pace for the last 24 hours"


class AccessError(QServerError):
    """Who asks may not do this."""

    code = "forbidden"


class UnauthenticatedError(AccessError):
    """No token came, or one that is malformed, unknown or revoked; which of them is not told."""

    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__("Send `Authorization: Bearer TOKEN` with a valid token.")


class RateLimitedError(AccessError):
    """Too many requests came from one token or address; one may pass in `retry_after_s`."""

    code = "rate_limited"

    def __init__(self, *, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(f"Too many requests came from you. Try again in {retry_after_s} s.")


class DisclosureGuardError(QServerError):
    """The answer would let a cell's count be known better than the owner allows.

    Args:
        price_nano: how much more a cell would lose, in 1e-9 epsilon.
        loss_nano: what a cell has lost at most.
        allowed_nano: the most that a cell may lose.
        cap: the owner's cap, a probability.
    """

    code = "disclosure_guard"
    kept = ("price_nano", "loss_nano", "allowed_nano", "cap")

    def __init__(self, *, price_nano: int, loss_nano: int, allowed_nano: int, cap: float) -> None:
        self.price_nano, self.cap = price_nano, cap
        self.loss_nano, self.allowed_nano = loss_nano, allowed_nano
        self.free: Any = None
        super().__init__(
            f"The answer would raise the largest loss of a cell by {cost_text(price_nano / 1e9)} "
            f"from {cost_text(loss_nano / 1e9)} epsilon; the dataset's disclosure guard allows "
            f"{left_text(allowed_nano / 1e9)}. Ask for a longer interval or less confidence."
        )


class IdempotencyError(QServerError):
    """An idempotency key came back with a different body."""

    code = "idempotency_mismatch"


class StoreError(QServerError):
    """Redis did not do its work; nothing was answered."""

    code = "store_error"


class StoreUnavailableError(StoreError):
    """Redis cannot be reached, or the connection broke."""

    code = "store_unavailable"


class StoreKilledError(StoreUnavailableError):
    """The store's process was killed while it started; another start may succeed."""

    code = "store_killed"


class StoreUnsupportedError(StoreError):
    """The server is too old, or the store was written by another schema version."""

    code = "store_unsupported"


class StoreNotDurableError(StoreError):
    """The store could lose or evict a charge that was acknowledged."""

    code = "store_not_durable"


class StoreBehindError(StoreError):
    """The store knows less than the worker's journal: it was lost or restored."""

    code = "store_behind"


class StoreCorruptError(StoreError):
    """The store's data differ from what was written; its files may not even load."""

    code = "store_corrupt"


class StateInUseError(StoreError):
    """Another server holds the state folder."""

    code = "state_in_use"


class FencedError(StoreError):
    """The population's lease passed to another worker."""

    code = "fenced"


class StaleVersionError(StoreError):
    """The ledger or the history moved on since the plan was made."""

    code = "stale_version"


class WorkerError(QServerError):
    """The trusted side failed."""

    code = "worker_error"


class NoWorkerError(WorkerError):
    """No worker is alive for the population."""

    code = "no_worker"


class BusyError(WorkerError):
    """Too many questions wait for a worker."""

    code = "busy"


class JournalError(WorkerError):
    """The journal is corrupt, locked, missing, or from a newer version."""

    code = "journal_error"


class PrivateDataError(WorkerError):
    """Attach could not read the private file; shown at the worker's own terminal only."""

    code = "private_data_error"


class MeasurementError(WorkerError):
    """A measurement failed. The public text is constant, for every cause."""

    code = "measurement_failed"

    def __init__(self) -> None:
        super().__init__("The measurement failed. Its charge, if any was reserved, is kept.")


class UnanswerableError(WorkerError):
    """A plan that was tried on placeholders gave no answer, so nothing was charged or measured."""

    code = "unanswerable"
    usual = "The plan gives no answer. Nothing was charged or measured."


class ClosedError(WorkerError):
    """The population came from a backup, and nothing tells what was drawn since then."""

    code = "population_closed"
    usual = (
        "The data came back from a backup that nothing confirms, so nothing is measured any more. "
        "Answers from history are still given."
    )


class BooksError(WorkerError):
    """Journal, store and plan do not agree; the public text is constant."""

    code = "books_differ"
    usual = "The books do not agree. Nothing was charged or measured."


class CapacityError(QServerError):
    """A bound on the size of a query, a history or a table was passed."""

    code = "too_large"


class EvaluationError(QServerError):
    """A probability, density or half-width came out as no number: it is neither shown nor used."""

    code = "not_evaluated"
    usual = "An error's law could not be evaluated."


class PortInUseError(QServerError):
    """Another program listens on the port."""

    code = "port_in_use"


class ChildFailedError(QServerError):
    """A child ended before it was of use."""

    code = "child_failed"
