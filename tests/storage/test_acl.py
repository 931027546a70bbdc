"""The users of deploy/redis-users.acl: each can do its work, and the web user no more than that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qserver.config import Settings
from qserver.errors import StoreError, StoreUnavailableError, StoreUnsupportedError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.account import Allowance
from qserver.records.answer import Answer, JobStatus
from qserver.records.history import HistoryTable
from qserver.service.quote_notes import StatementNote
from qserver.service.service import Service
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.audit import AuditLog
from qserver.storage.keys import ACCOUNTS, AUDIT, DATASETS, SCHEMA, TOKENS, Keys, rate_key
from qserver.storage.population_facts import forbidden_powers
from qserver.storage.server.connection import Scripts, StoreClient, connect
from qserver.storage.server.store_snapshot import snapshot_of_server
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.until_tables import ranges
from worker.owner.attach import MAX_PHI, MIN_PHI

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "the web's user of the store is refused each write that is not its own, and doctor tells "
        "a user that may do more",
    ),
]

RULES = Path(__file__).parents[2] / "deploy" / "redis-users.acl"
KEYS = Keys("town")


@dataclass(frozen=True)
class Town:
    """A deployment whose every process has a user of its own."""

    worker: Deployment
    web: Deployment
    owner_url: str
    backup_url: str

    @property
    def web_client(self) -> StoreClient:
        return connect(self.web.settings.redis_url, role="web")

    @property
    def book(self) -> AccountBook:
        return AccountBook.open(replace(self.web.settings, redis_url=self.owner_url), role="owner")


@pytest.fixture
def phi() -> float:
    return MAX_PHI


@pytest.fixture
def urls(store_url: str, redis_client: StoreClient) -> Iterator[dict[str, str]]:
    """The store's address for each user."""
    found = dict[str, str]()
    for line in RULES.read_text().splitlines():
        name, *rules = line.split()[1:]
        if name == "default":
            continue
        redis_client.execute_command("ACL", "SETUSER", name, "reset", *rules)
        password = next(rule[1:] for rule in rules if rule.startswith(">"))
        found[name] = store_url.replace("unix://", f"unix://{name}:{password}@")
    yield found
    redis_client.execute_command("ACL", "DELUSER", *found)


@pytest.fixture
def town(tmp_path: Path, urls: dict[str, str], phi: float) -> Town:
    worker = Deployment.make(tmp_path, urls["worker"], limit="2", phi=phi)
    web = replace(worker, settings=replace(worker.settings, redis_url=urls["web"]))
    return Town(worker, web, urls["owner"], urls["backup"])


def test_the_web_starts_on_an_empty_store_and_is_ready_once_a_dataset_is_attached(
    tmp_path: Path, urls: dict[str, str], redis_client: StoreClient
) -> None:
    settings = Settings(redis_url=urls["web"])
    service = Service(Store.open(settings), settings)
    AccountBook.open(replace(settings, redis_url=urls["owner"]), role="owner").create("o", "owner")
    with pytest.raises(StoreUnavailableError, match="attach a dataset"):
        service.ready()
    assert not redis_client.exists(SCHEMA)
    Deployment.make(tmp_path, urls["worker"])
    service.ready()
    redis_client.set(SCHEMA, "999")
    with pytest.raises(StoreUnsupportedError, match="999"):
        service.ready()


def ask(town: Town, *, length: float, by: str = "") -> Answer:
    found = town.web.submit({"age": 21}, length=length, by=by)
    if isinstance(found, Answer):
        return found
    assert town.worker.work_off() == 1
    result = town.web.service().job(found.id).result
    assert isinstance(result, Answer)
    return result


def test_nobody_is_the_default_user_by_whom_a_restarted_store_reads_its_file(
    redis_client: StoreClient, store_url: str
) -> None:
    """Redis, and Valkey before 9, run what their file holds as `default`.

    Without its rights they would skip each transaction and script, and so every charge.
    """
    name, *rules = RULES.read_text().splitlines()[0].split()[1:]
    assert name == "default"
    redis_client.execute_command("ACL", "SETUSER", "reader", "reset", *rules)
    try:
        for command in (["EXEC"], ["SET", "qs:x", "1"], ["XADD", "qs:x", "*", "a", "b"]):
            assert redis_client.execute_command("ACL", "DRYRUN", "reader", *command) == "OK"
        for password in ("", "x"):
            url = store_url.replace("unix://", f"unix://reader:{password}@")
            with pytest.raises(StoreError, match="refused the credentials"):
                connect(url, role="web").ping()
    finally:
        redis_client.execute_command("ACL", "DELUSER", "reader")


def test_the_web_user_notes_what_a_statement_may_still_be_charged(town: Town) -> None:
    notes = town.web.service().notes
    notes.keep("people", "digest", StatementNote(5))
    notes.keep("people", "digest", StatementNote(0, (2.5,)))
    assert town.web.service().notes.of("people", "digest") == StatementNote(0, (2.5,))


def test_each_user_can_do_its_work(town: Town) -> None:
    """Ask, measure, refine, read, answer again from history, bind, count, account and audit."""
    token = town.book.create("ann", "analyst")
    town.book.allow("ann", "town", Allowance(limit_nano=10**9))
    assert [ask(town, length=n, by="ann").source for n in (60, 50, 70)] == [
        "measured",
        "refined",
        "history",
    ]
    service = town.web.service()
    service.ready()
    assert service.datasets()[0].worker_alive
    assert service.ledger.spending("people").accounts[0].account == "ann"
    assert len(service.ledger.charges("people", after=-1, limit=9).entries) == 2
    query = service.parse("people", {"where": {"age": 22}})
    assert service.explain("people", Question(query, Requirement(60, 0.9))).affordable
    client = town.web_client
    record = AccountBook(client).token_record(token.id)
    assert record is not None
    assert record.accepts(token)
    limiter = RateLimiter(client)
    for _ in range(3):
        limiter.pass_one("ann", rate=5)
    assert client.exists(rate_key("ann")) == 1
    saved = service.saved.keep("people", "ann", fields="length=9", title="", as_of="")
    assert service.saved.all("people", "ann") == (saved,)
    Scripts(client).run("bind", keys=[KEYS.idempotency("people", "k")], args=["d", "", 60])
    town.book.revoke("ann")
    assert AccountBook(client).token_record(token.id) is None
    town.book.let_in("team/", "analyst")
    town.book.revoke("team/ben")
    town.book.allow("team/", "town", Allowance(limit_nano=10**9))
    known = AccountBook(client).known(["team/", "team/ben", "team/cyn"])
    assert {name: one.token_id for name, one in known.items()} == {"team/": "-", "team/ben": ""}
    assert ask(town, length=40, by="team/cyn").source == "refined"
    changes = AuditLog(connect(town.owner_url, role="owner")).changes()
    assert len(changes) == 7
    with ExitStack() as stack:
        assert snapshot_of_server(town.backup_url, stack)[1].n_bytes > 1000
    with ExitStack() as stack, pytest.raises(StoreError, match="of a user with \\+sync"):
        snapshot_of_server(town.owner_url, stack)


@pytest.mark.parametrize("phi", [MIN_PHI])
def test_each_user_can_do_its_work_where_tables_are_bought(town: Town, phi: float) -> None:
    town.book.create("ann", "analyst")
    service, n_paid, tables = town.web.service(), 0, list[HistoryTable]()
    for where in ranges():
        if tables:
            break
        if isinstance(town.web.submit(where, length=60, by="ann"), JobStatus):
            assert town.worker.work_off() == 1
            n_paid += 1
        page = service.history.page("people", after=-1, limit=99)
        tables = [item for item in page.rows if isinstance(item, HistoryTable)]
    table = tables[0]
    values = service.history.measurement("people", table.id).values
    assert values is not None
    assert len(values) == table.n_cells
    assert len(town.web_client.lrange(KEYS.paid(town.web.meta.snapshot), 0, -1)) == n_paid
    assert service.ledger.spending("people").accounts[0].n_charges > 1


def _forbidden(snapshot: str) -> list[tuple[str, ...]]:
    """A write to every key that is not the web's own."""
    hashes: tuple[str, ...] = (
        KEYS.ledger,
        KEYS.reservations,
        KEYS.open,
        KEYS.burnt,
        KEYS.allowances,
    )
    hashes += (KEYS.dataset("people"), DATASETS, ACCOUNTS, TOKENS)
    lists = (KEYS.charges, KEYS.history(snapshot), KEYS.paid(snapshot), AUDIT)
    return [
        *(("HSET", key, "limit", "999999999999") for key in hashes),
        *(("RPUSH", key, "{}") for key in lists),
        ("HINCRBY", KEYS.ledger, "version", "1"),
        ("SET", KEYS.lease, "mine"),
        ("SET", SCHEMA, "2"),
        ("SET", "elsewhere", "1"),
        ("GET", "elsewhere"),
        ("DEL", KEYS.job("j")),
        ("XDEL", KEYS.jobs("people"), "0-1"),
        ("FLUSHALL",),
        ("CONFIG", "SET", "appendonly", "no"),
        ("CONFIG", "GET", "requirepass"),
        ("ACL", "SETUSER", "web", "allkeys"),
        ("SCRIPT", "FLUSH"),
        ("KEYS", "*"),
        ("RENAME", KEYS.jobs("people"), KEYS.charges),
        ("COPY", KEYS.jobs("people"), KEYS.charges),
    ]


def test_the_web_user_is_refused_each_write_that_is_not_its_own(
    town: Town, redis_client: StoreClient
) -> None:
    before = redis_client.hgetall(KEYS.ledger)
    for command in _forbidden(town.web.meta.snapshot):
        with pytest.raises(StoreError, match="does not let this user do that"):
            town.web_client.execute_command(*command)
    assert redis_client.hgetall(KEYS.ledger) == before


def test_a_script_gives_the_web_user_no_more_than_it_has(town: Town) -> None:
    """Neither a key that is declared nor one that is not can be written through Lua."""
    for key in (KEYS.ledger, KEYS.charges, TOKENS):
        for text, keys in (
            ("return redis.call('DEL', KEYS[1])", [key]),
            (f"return redis.call('HSET', '{key}', 'limit', '9')", []),
        ):
            with pytest.raises(Exception, match=r"(?i)permission|does not let this user"):
                town.web_client.execute_command("EVAL", text, len(keys), *keys)


def test_the_scripts_of_the_worker_are_refused_to_the_web_user(town: Town) -> None:
    found = town.web.submit({"age": 23})
    assert isinstance(found, JobStatus)
    with pytest.raises(StoreError, match="does not let this user do that"):
        town.web.writer().acquire("town", jobs=[found.id])


def test_the_worker_makes_no_accounts_and_the_owner_spends_nothing(town: Town) -> None:
    worker = connect(town.worker.settings.redis_url, role="worker")
    owner = connect(town.owner_url, role="owner")
    for client, command in (
        (worker, ("HSET", TOKENS, "id", "{}")),
        (worker, ("HSET", ACCOUNTS, "ann", "{}")),
        (worker, ("FLUSHALL",)),
        (worker, ("CONFIG", "SET", "appendonly", "no")),
        (owner, ("HSET", KEYS.ledger, "spent", "0")),
        (owner, ("RPUSH", KEYS.charges, "{}")),
        (owner, ("DEL", AUDIT)),
    ):
        with pytest.raises(StoreError, match="does not let this user do that"):
            client.execute_command(*command)


def test_the_doctor_tells_a_user_of_the_file_from_one_that_may_do_everything(
    town: Town, redis_client: StoreClient
) -> None:
    """It finds out without changing anything."""
    before = {k: redis_client.dump(k) for k in sorted(redis_client.keys())}
    worker = connect(town.worker.settings.redis_url, role="worker")
    assert forbidden_powers(town.web_client, role="web") == []
    assert forbidden_powers(worker, role="worker") == []
    assert "write the ledger" in forbidden_powers(worker, role="web")
    everything = forbidden_powers(redis_client, role="web")
    assert len(everything) == 8
    assert set(forbidden_powers(redis_client, role="worker")) < set(everything)
    assert {k: redis_client.dump(k) for k in sorted(redis_client.keys())} == before


def test_the_file_names_every_user_with_a_password_to_be_replaced() -> None:
    text = RULES.read_text()
    assert re.findall(r"^user (\w+) on >([A-Z-]+) ", text, re.MULTILINE) == [
        ("web", "WEB-PASSWORD"),
        ("worker", "WORKER-PASSWORD"),
        ("backup", "BACKUP-PASSWORD"),
        ("owner", "OWNER-PASSWORD"),
    ]
