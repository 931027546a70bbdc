"""Names of the keys. All keys of a population carry its hash tag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SCHEMA = "qs:schema"
DATASETS = "qs:datasets"
GROUP = "workers"
ACCOUNTS = "qs:accounts"
TOKENS = "qs:tokens"
AUDIT = "qs:audit"
WISHES = "qs:wishes"
"""Hash: digest -> a command that an owner asked for in the browser."""
MOST_ROUNDS = 4
"""How often the answer of a job may be refined after its draw, where it is longer than asked."""


@dataclass(frozen=True)
class Keys:
    """Keys of one population."""

    population: str

    def __post_init__(self) -> None:
        # A brace would end the hash tag early.
        if not self.population or set("{}") & set(self.population):
            raise ValueError("a population's name has no braces and is not empty")

    def _key(self, *parts: str) -> str:
        return ":".join(("qs", "{" + self.population + "}", *parts))

    @property
    def ledger(self) -> str:
        """Hash: limit, spent, version, fence, relation; per dataset and snapshot fields."""
        return self._key("ledger")

    @property
    def disjoint(self) -> str:
        """Hash of the pairs of snapshots without a common person, as the owner declared."""
        return self._key("disjoint")

    @property
    def charges(self) -> str:
        """List of charges, append-only."""
        return self._key("charges")

    @property
    def lease(self) -> str:
        """String: nonce of the worker that holds the population."""
        return self._key("lease")

    @property
    def alive(self) -> str:
        """Set of the live workers; it expires when the last of them falls silent."""
        return self._key("alive")

    @property
    def reservations(self) -> str:
        """Hash: job -> plan."""
        return self._key("reservations")

    @property
    def open(self) -> str:
        """Hash of the reservations neither published nor burnt."""
        return self._key("open")

    @property
    def burnt(self) -> str:
        """Hash of the burnt reservations."""
        return self._key("burnt")

    @property
    def queues(self) -> str:
        """Set: datasets that have a stream of jobs."""
        return self._key("queues")

    def jobs(self, dataset: str) -> str:
        """Stream of a dataset's open jobs."""
        return self._key("jobs", dataset)

    @property
    def undivided_jobs(self) -> str:
        """Stream of open jobs of all datasets, in stores of an older version."""
        return self._key("jobs")

    @property
    def asked(self) -> str:
        """Hash: digest of a question -> its open job."""
        return self._key("asked")

    def job(self, job_id: str) -> str:
        """Hash: state, dataset, request, result or problem."""
        return self._key("job", job_id)

    def dataset(self, name: str) -> str:
        """Hash: meta."""
        return self._key("dataset", name)

    def earlier(self, name: str) -> str:
        """List: ids of a dataset's replaced snapshots, oldest first."""
        return self._key("earlier", name)

    @property
    def snapshots(self) -> str:
        """Hash: snapshot -> meta, of replaced snapshots."""
        return self._key("snapshots")

    def history(self, snapshot: str) -> str:
        """List of released rows and tables."""
        return self._key("history", snapshot)

    def models(self, snapshot: str) -> str:
        """Hash: model -> the facts behind it."""
        return self._key("models", snapshot)

    def paid(self, snapshot: str) -> str:
        """List of the paid questions, append-only."""
        return self._key("paid", snapshot)

    def estimators(self, snapshot: str) -> str:
        """List of certified weights of answered keys."""
        return self._key("estimators", snapshot)

    def remembered(self, snapshot: str) -> str:
        """Hash: key of a row -> number of estimators kept for free answers; statement -> note."""
        return self._key("remembered", snapshot)

    def saved(self, dataset: str) -> str:
        """Hash: account -> its saved questions of a dataset."""
        return self._key("saved", dataset)

    @property
    def allowances(self) -> str:
        """Hash: account -> its allowance here."""
        return self._key("allowances")

    def idempotency(self, dataset: str, key: str) -> str:
        """Hash: body, outcome of an idempotency key."""
        digest = hashlib.sha256(f"{dataset}\0{key}".encode()).hexdigest()
        return self._key("idempotency", digest)


def rate_key(whose: str) -> str:
    """Hash: the bucket of requests of a token or an address."""
    return f"qs:rate:{whose}"


def population_of_job(job_id: str) -> str:
    """The population in a job's id; '' when the id has none."""
    return job_id.rpartition("~")[0]


def job_id(population: str, unique: str) -> str:
    """A job's id. It names the population, so it suffices to find the job."""
    return f"{population}~{unique}"


def next_round(job_id: str) -> str:
    """The id of the job that refines the answer of a worker's job; '' after the last round."""
    first, _, n = job_id.rpartition("~")[2].partition(".")
    after = int(n or 0) + 1
    return "" if after > MOST_ROUNDS else f"{population_of_job(job_id)}~{first}.{after}"


def all_rounds(job_id: str) -> list[str]:
    """A job's id, then those of the jobs that may refine its answer, in turn."""
    if "." in job_id.rpartition("~")[2]:
        return [job_id]
    return [job_id, *(f"{job_id}.{n}" for n in range(1, MOST_ROUNDS + 1))]
