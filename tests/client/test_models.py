"""Models through both clients against a real server: learnt, asked, checked, drawn, exported."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from qserver.answering.models.kinds.registry import KINDS
from qserver.client import (
    AsyncClient,
    BudgetProblemError,
    Client,
    Gate,
    LearntModel,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
    model_requests,
)
from qserver.client.flows import Call
from qserver.errors import ConfigError
from qserver.models.network.bif import read_bif
from qserver.query.request_fields import NEEDED
from qserver.text import cost_text
from tests.client.serving import Served, serving
from tests.deployment import ROWS, Deployment

EDGES = [("sex", "age")]
WOMEN = {"where": {"sex": "Female"}}
N_WOMEN = sum(sex == "Female" for _, sex in ROWS)
SEXES = ("Female", "Male", "other")
SURE = 0.999999
Ask = Callable[..., Any]


def plain(served: Served, **options: Any) -> Ask:
    """Calls of `Client.models`; the worker works off its jobs while it waits."""

    def work(_seconds: float) -> None:
        served.town.work_off()

    client = Client(served.url, **{"sleep": work, **options})
    return lambda method, *args, **kwargs: getattr(client.models, method)(*args, **kwargs)


def awaited(served: Served, **options: Any) -> Ask:
    """Calls of `AsyncClient.models`, each in an event loop of its own."""

    async def work(_seconds: float) -> None:
        served.town.work_off()

    models = AsyncClient(served.url, **{"sleep": work, **options}).models
    return lambda method, *args, **kwargs: asyncio.run(getattr(models, method)(*args, **kwargs))


both = pytest.mark.parametrize("make", [plain, awaited])


@both
def test_a_network_is_learnt_by_a_job_and_asked_for_nothing(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    learnt = ask("learn_network", "people", EDGES, epsilon=200)
    assert isinstance(learnt, LearntModel)
    assert 0 < learnt.cost.charged <= 200
    assert served.spent_nano() == round(learnt.cost.charged * 1e9)
    [listed] = ask("all", "people")
    shown = ask("get", "people", learnt)
    assert (listed.id, listed.facts) == (learnt.id, None)
    assert shown.facts["edges"] == [["sex", "age"]]
    assert (shown.charged, shown.tables) == (learnt.cost.charged, learnt.tables)
    sexes = ask("marginal", "people", learnt, ["sex"])
    assert sexes["Female"] == pytest.approx(N_WOMEN / len(ROWS), abs=0.01)
    assert sum(sexes.probabilities) == pytest.approx(1)
    both_of = ask("marginal", "people", learnt.id, ["sex", "age"])
    assert both_of["Female", "21"] == pytest.approx(
        sum(row == (21, "Female") for row in ROWS) / len(ROWS), abs=0.01
    )
    at_21 = ask("marginal", "people", shown, ["sex"], given={"age": "21"})
    assert at_21["Female"] == pytest.approx(
        both_of["Female", "21"] / sum(both_of[sex, "21"] for sex in SEXES)
    )
    best = ask("most_probable", "people", learnt, ["sex"], given={"age": "21"})
    assert best.labels["sex"] == max(SEXES, key=lambda sex: at_21[sex])
    assert ask("count", "people", learnt, WOMEN).estimate == pytest.approx(N_WOMEN, abs=5)
    assert served.spent_nano() == round(learnt.cost.charged * 1e9)
    with pytest.raises(KeyError):
        _ = sexes["Nobody"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_the_registry_is_learnt_with_the_members_of_its_request(kind: str) -> None:
    """These two have a method besides `learn`, which takes any kind."""
    parameters = dict(inspect.signature(getattr(model_requests, f"learn_{kind}")).parameters)
    assert [parameters.pop(name).name for name in ("dataset", "epsilon")]
    defaults = {name: found.default for name, found in parameters.items()}
    wanted = {member.name: member.default for member in KINDS[kind].face.fields}
    assert {n: [] if d == () else d for n, d in defaults.items()} == {
        n: inspect.Parameter.empty if d is NEEDED else d for n, d in wanted.items()
    }


def test_a_kind_that_is_new_to_the_server_is_learnt_by_its_name() -> None:
    asked = model_requests.learn("people", "tree", epsilon=1, root="age", depth=2)
    assert asked.call == Call(
        ("v1", "datasets", "people", "models"),
        {"kind": "tree", "root": "age", "depth": 2, "epsilon": 1},
    )


@both
def test_a_model_is_learnt_by_the_name_of_its_kind(
    make: Callable[[Served], Ask], served: Served
) -> None:
    network = {"edges": [["sex", "age"]]}
    price = prices(served, make)("model", "people", "network", epsilon=2, network=network)
    learnt = make(served)("learn", "people", "network", epsilon=2, network=network)
    assert learnt.cost.charged == price.price == pytest.approx(2)


@both
def test_marginals_are_learnt_and_say_how_many_records_they_expect(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    learnt = ask("learn_marginals", "people", [["age", "sex"]], epsilon=200, selection="listed")
    found = ask("marginal", "people", learnt, ["sex"])
    assert found.n_records == pytest.approx(len(ROWS), abs=5)
    assert found.is_held is True
    free = ask("learn_marginals", "people", epsilon=0)
    assert free.cost.charged == 0


def prices(served: Served, make: Callable[[Served], Ask]) -> Ask:
    """Calls of `models.prices` of either client."""
    if make is plain:
        own = Client(served.url).models.prices
        return lambda method, *args, **kwargs: getattr(own, method)(*args, **kwargs)
    other = AsyncClient(served.url).models.prices
    return lambda method, *args, **kwargs: asyncio.run(getattr(other, method)(*args, **kwargs))


@both
def test_learning_costs_what_was_told_before(make: Callable[[Served], Ask], served: Served) -> None:
    ask, tell = make(served), prices(served, make)
    told = tell("network", "people", EDGES, epsilon=0.5)
    assert (told.kind, told.affordable, told.n_tables, told.sample) == ("blocks", True, 1, None)
    # One table of three sexes by eleven ages, of variance v per cell: 11 v of a sex, v of an age.
    v = 2 / told.price**2
    sex, age = sqrt(11 * v * (1 - 1 / 3)), sqrt(v * (1 - 1 / 11)) * 3
    bounds = told.error
    assert (bounds.parameter_least, bounds.parameter_greatest) == pytest.approx((sex, age))
    assert (bounds.term_lower, bounds.term_upper) == pytest.approx((sex, 2 * 2 * 11 * age))
    sampled = tell("network", "people", EDGES, epsilon=0.5, allocation="arxiv")
    assert sampled.error is None
    assert 0.049 < sampled.sample <= 0.05 < sampled.price <= 0.5
    with pytest.raises(QuestionProblemError, match="must be bought"):
        tell("network", "people", EDGES, epsilon=0)
    assert served.spent_nano() == 0
    learnt = ask("learn_network", "people", EDGES, epsilon=0.5)
    assert learnt.cost.charged == told.price
    assert told.remaining - told.price == pytest.approx(learnt.cost.remaining, abs=1e-12)
    free = tell("network", "people", EDGES, epsilon=0)
    assert (free.kind, free.price, free.n_tables) == ("free", 0, 0)
    assert (free.seconds, free.memory_bytes) == (None, None)
    assert free.error == told.error
    more = tell("marginals", "people", [["sex"]], epsilon=5000)
    assert more.error is None
    assert (more.affordable, more.price > more.remaining) == (False, True)
    assert 0 < more.seconds < 60
    assert 1 << 20 < more.memory_bytes < 1 << 28
    assert repr(free) == "<LearningPrice 0 of 999.5 epsilon left; 0 tables>"


@both
def test_history_confirms_a_model_for_nothing(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask, tell = make(served), prices(served, make)
    good = ask("learn_network", "people", EDGES, epsilon=200)
    at_21: dict[str, Any] = {"where": {"sex": ["Female", "Male"], "age": "21"}}
    options = {"length": 40, "confidence": SURE, "fallback_length": 20}
    told = tell("check", "people", good, at_21, **options)
    assert (told.would, told.check.price) == ("confirm", 0)
    known = ask("check", "people", good, at_21, **options)
    assert (known.verdict, known.guarantee.cost.charged, known.fallback) == ("confirmed", 0, None)
    assert known.estimate in known.guarantee.interval
    assert "history confirms it at no cost; of " in repr(told)


@pytest.mark.slow
@both
def test_a_wrong_model_is_contradicted_and_the_count_measured_at_the_prices_told(
    make: Callable[[Served], Ask], tmp_path: Path, store_url: str
) -> None:
    """A network without edges expects young men where the data have none.

    Check and fallback together cost what measuring at once would have cost.
    """
    rows = [(20 + i % 10, "Female" if i % 10 < 5 else "Male") for i in range(600)]
    with serving(Deployment.make(tmp_path, store_url, limit="1000", rows=rows), wait_s=0) as served:
        ask, tell = make(served), prices(served, make)
        wrong = ask("learn_network", "people", [], epsilon=100)
        base = served.spent_nano()
        young_men = {"where": {"sex": "Male", "age": {"below": 25}}}
        assert ask("count", "people", wrong, young_men).estimate == pytest.approx(150, abs=5)
        options = {"length": 40.0, "confidence": SURE, "fallback_length": 10.0}
        told = tell("check", "people", wrong, young_men, **options)
        assert served.spent_nano() == base
        assert told.would == "check"
        assert 0 < told.check.price < told.fallback.price
        assert f"; measuring instead {cost_text(told.fallback.price)}" in repr(told)
        found = ask("check", "people", wrong, young_men, **options)
        assert found.verdict == "contradicted"
        assert 0 in found.guarantee.interval
        assert found.estimate not in found.guarantee.interval
        assert found.fallback.interval.length <= 10
        assert 0 in found.fallback.interval
        assert found.guarantee.cost.charged == told.check.price
        paid = [round(part.cost.charged * 1e9) for part in (found.guarantee, found.fallback)]
        assert sum(paid) == pytest.approx(told.fallback.price * 1e9, rel=1e-8)
        assert served.spent_nano() == base + sum(paid)
        assert "contradicted by <Answer" in repr(found)
        assert "measured instead <Answer" in repr(found)
        assert tell("check", "people", wrong, young_men, **options).would == "contradict"
        again = ask("check", "people", wrong, young_men, **options)
        assert again.fallback.cost.charged == 0


@both
@pytest.mark.parametrize("n_lost", [1, 3])
def test_a_lost_reply_to_learning_and_to_a_check_is_charged_once(
    make: Callable[[Served], Ask], served: Served, n_lost: int
) -> None:
    """Each call has one key however often it is sent, and the ledger what the replies say."""
    ask = make(served)
    served.front.to_lose = n_lost
    learnt = ask("learn_network", "people", EDGES, epsilon=0.5)
    assert len(set(served.front.keys)) == 1
    assert "" not in served.front.keys
    charges = served.n_charges()
    served.front.keys.clear()
    served.front.to_lose = n_lost
    count = ask("check", "people", learnt, WOMEN, length=20)
    assert len(set(served.front.keys)) == 1
    assert "" not in served.front.keys
    guarantee = count.guarantee
    # Where the tables' cells disagree it is refined, and says so if it is longer all the same.
    assert guarantee.interval.length <= 20 or guarantee.remarks
    assert served.n_charges() > charges
    paid = learnt.cost.charged + count.guarantee.cost.charged
    assert served.spent_nano() == round(paid * 1e9)


@both
def test_synthetic_records_come_as_rows_and_as_a_file(
    make: Callable[[Served], Ask], served: Served, tmp_path: Path
) -> None:
    ask = make(served)
    learnt = ask("learn_network", "people", EDGES, epsilon=200)
    drawn = ask("sample", "people", learnt, 1500, seed=3)
    assert (len(drawn), drawn.columns) == (1500, ("age", "sex"))
    assert {sex for _, sex in drawn} <= set(SEXES)
    assert drawn == ask("sample", "people", learnt, 1500, seed=3)
    assert drawn != ask("sample", "people", learnt, 1500, seed=4)
    path = tmp_path / "drawn.csv"
    ask("write_sample", "people", learnt, path, 1500, seed=3)
    assert path.read_text(encoding="utf-8") == drawn.csv
    with pytest.raises(QuestionProblemError, match="n"):
        ask("write_sample", "people", learnt, tmp_path / "none.csv", 0)
    with pytest.raises(ConfigError, match="can be written"):
        ask("write_sample", "people", learnt, tmp_path / "none" / "x.csv", 10)
    assert [p.name for p in tmp_path.glob("*.csv*")].count("drawn.csv") == 1
    assert not list(tmp_path.glob("none.csv*"))


@both
def test_a_file_that_breaks_off_is_asked_for_again_and_else_not_there(
    make: Callable[..., Ask], served: Served, tmp_path: Path
) -> None:
    learnt = make(served)("learn_network", "people", EDGES, epsilon=200)
    whole = served.front.app
    replies = iter([True, False])

    def cut(environ: Any, start: Any) -> Iterable[bytes]:
        """The app, whose first reply ends after some of its lines."""
        pieces = list(whole(environ, start))
        return [b"".join(pieces)[:200]] if next(replies, False) else pieces

    served.front.app = cut
    path = tmp_path / "drawn.csv"
    with pytest.raises(ServerUnreachableError, match="ended after"):
        make(served, retries=0)("write_sample", "people", learnt, path, 100)
    assert not list(tmp_path.glob("drawn*"))
    replies = iter([True, False])
    make(served)("write_sample", "people", learnt, path, 100)
    assert path.read_text(encoding="utf-8").count("\n") == 101


@both
def test_a_network_is_exported_and_audited(make: Callable[[Served], Ask], served: Served) -> None:
    ask = make(served)
    learnt = ask("learn_network", "people", {"edges": [["sex", "age"]]}, epsilon=0.5)
    text = ask("export", "people", learnt)
    assert read_bif(text).structure.edges == (("sex", "age"),)
    again = ask("learn_network", "people", text, epsilon=0)
    assert again.cost.charged == 0
    gate = Gate(fpr=0.05, max_power=0.06)
    refused = ask("audit", "people", EDGES, records=500, epsilon=1, gate=gate)
    assert (refused.passes, refused.complexity) == (False, 2 + 3 * 10)
    assert refused.limit <= min(refused.bound, refused.cap)
    assert "power" in refused.reason
    free = ask("audit", "people", text, records=5e6, release="model", reference_records=1000)
    assert (free.passes, free.cap, free.reason) == (None, None, "")
    assert free.document["release"] == "model"


@both
def test_refusals_of_models_are_exceptions(make: Callable[[Served], Ask], served: Served) -> None:
    ask = make(served)
    with pytest.raises(BudgetProblemError):
        ask("learn_network", "people", EDGES, epsilon=5000)
    with pytest.raises(QuestionProblemError, match="got 'height'"):
        ask("learn_network", "people", [("sex", "height")], epsilon=1)
    with pytest.raises(ServerProblemError) as missing:
        ask("marginal", "people", "people~none", ["sex"])
    assert missing.value.code == "not_found"
    assert served.spent_nano() == 0


def test_results_of_models_read_well(served: Served) -> None:
    ask = plain(served)
    learnt = ask("learn_network", "people", EDGES, epsilon=100)
    charged, left = f"{learnt.cost.charged:.9f}".rstrip("0"), learnt.cost.remaining
    assert repr(learnt) == (
        f"<LearntModel {learnt.id}: network from 1 tables; cost {charged.rstrip('.')}, "
        f"{left:.9f}".rstrip("0").rstrip(".")
        + " left>"
    )
    [listed] = ask("all", "people")
    assert repr(listed).startswith(f"<ModelInfo {learnt.id}: network from 1 tables; cost ")
    count = ask("count", "people", learnt, WOMEN)
    assert repr(count) == f"<ModelCount {count.estimate:,.1f}, without a guarantee>"
    assert float(count) == count.estimate
    checked = ask("check", "people", learnt, WOMEN, length=30)
    assert f"{checked.guarantee!r}" in repr(checked)
    drawn = ask("sample", "people", learnt, 2000)
    assert repr(drawn) == "<SyntheticRecords 2,000 records of age, sex>"
    audit = ask("audit", "people", EDGES, records=5000, gate=Gate(0.05, 0.9))
    assert repr(audit) == (
        f"<LeakAudit area {audit.limit:.4f} at most, {audit.bound:.4f} by structure; passes>"
    )


@both
def test_a_structure_is_proposed_by_a_model_and_learnt(
    make: Callable[[Served], Ask], served: Served
) -> None:
    """Age and sex depend on one another; their table has 32 numbers beside the total."""
    ask = make(served)
    model = ask("learn_marginals", "people", [["age", "sex"]], epsilon=200, selection="listed")
    spent = served.spent_nano()
    loose = ask("propose", "people", model, records=5000, gate=Gate(0.05, 0.9), epsilon=1)
    assert {frozenset(edge) for edge in loose.edges} == {frozenset(("age", "sex"))}
    assert (loose.passes, loose.complexity, loose.table_complexity) == (True, 32, 32)
    assert repr(loose) == "<StructureProposal 1 edges; passes>"
    # Ages and sexes alone have 12 numbers, of which sqrt(12/5000) is the separation.
    tight = ask("propose", "people", model, records=5000, gate=Gate(0.05, 0.056), release="model")
    assert (tight.edges, tight.passes, tight.complexity) == ((), True, 12)
    none = ask("propose", "people", model.id, records=50, gate=Gate(0.05, 0.0501))
    assert (none.edges, none.passes) == ((), False)
    assert "exceeds" in none.reason
    alone = ask("propose", "people", model, records=9, gate=Gate(0.05, 1), variables=["sex"])
    assert alone.network == {"variables": ["sex"], "edges": []}
    with pytest.raises(QuestionProblemError, match="variables"):
        ask("propose", "people", model, records=9, gate=Gate(0.05, 1), variables=["height"])
    with pytest.raises(ServerProblemError, match="model"):
        ask("propose", "people", "people~none", records=9, gate=Gate(0.05, 1))
    assert served.spent_nano() == spent
    learnt = ask("learn_network", "people", loose.network, epsilon=0)
    assert learnt.cost.charged == 0
