"""Models on the pages: their price first, learning, what they say, and their files."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from werkzeug.datastructures import MultiDict

from qserver.errors import InputError
from qserver.models.network.bif import read_bif
from qserver.portal import numbers
from qserver.portal.descriptions import model_words
from qserver.portal.form_reader import LearnForm, question_of
from tests.portal.portal_site import BUDGET_WARNS, HTMX, PEOPLE, Browser

MODELS = f"{PEOPLE}/models"
NETWORK = {"kind": "network", "structure": "sex > age", "epsilon": "0.2"}
MARGINALS = {"kind": "marginals", "marginals": "age, sex\nsex", "epsilon": "0.1"}


def learn(browser: Browser, fields: dict[str, str] = NETWORK) -> str:
    """The address of a model that was learnt from a form."""
    response = browser.post(f"{MODELS}/learn", fields)
    assert response.status_code == 303, response.text
    job = response.headers["Location"]
    assert "Waiting for a worker" in browser.text(job)
    browser.town.work_off()
    found = re.search(rf'href="({MODELS}/[^"]+)"[^>]*>Open the model', browser.text(job))
    assert found
    return found[1]


def form(**fields: str) -> LearnForm:
    return LearnForm.of(MultiDict(fields))


def test_the_price_is_shown_first_and_nothing_is_spent(browser: Browser) -> None:
    assert "No model yet." in browser.text(MODELS)
    part = browser.post(f"{MODELS}/price", NETWORK, headers=HTMX).text
    assert "Learn: 0.2 ε" in part
    assert "sex → age" in part
    assert "Buys 1 table<" in part
    assert "every cell of age (11 parts) by sex (3 parts), for 0.2 ε" in part
    # sqrt(11 * 2 * 25 * 2/3) and sqrt(2 * 25 * 10/11) * 3
    assert "19.1 / N to 20.2 / N" in part
    assert "at most 890 / N" in part
    assert "<html" not in part
    whole = browser.post(f"{MODELS}/price", NETWORK).text
    assert "Learn: 0.2 ε" in whole
    assert "sex &gt; age</textarea>" in whole
    assert browser.spent_nano() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"structure": ""}, "must have an edge `parent &gt; child` on each line, or be BIF"),
        ({"structure": "sex > age > sex"}, "must have an edge"),
        ({"structure": "sex > height"}, "height"),
        ({"structure": "sex > age\nage > sex"}, "cycle"),
        ({"structure": "network x { }"}, "“Structure of the network”: its variables must be 1 to"),
        ({"epsilon": "much"}, "“Tables may cost, ε” must be a finite number"),
        ({"epsilon": "-1"}, "“Tables may cost, ε” must be 0 to 1,000,000"),
        ({"kind": "marginals", "marginals": "age,,sex"}, "with commas between"),
        ({"kind": "marginals", "marginals": "height"}, "name attributes of the dataset"),
    ],
)
def test_what_cannot_be_learnt_is_told_beside_the_form(
    browser: Browser, change: dict[str, str], said: str
) -> None:
    part = browser.post(f"{MODELS}/price", {**NETWORK, **change}, headers=HTMX)
    assert part.status_code == 200
    assert said in part.text.replace("&#39;", "'")
    assert "data-ask" not in part.text


def test_what_history_gives_is_learnt_for_nothing(browser: Browser) -> None:
    learn(browser)
    part = browser.post(f"{MODELS}/price", {**NETWORK, "epsilon": "0"}, headers=HTMX).text
    assert ">Free<" in part
    assert "History has all that it needs." in part
    spent = browser.spent_nano()
    learn(browser, {**NETWORK, "epsilon": "0"})
    assert browser.spent_nano() == spent


def test_a_price_pays_for_no_other_model(browser: Browser) -> None:
    part = browser.post(f"{MODELS}/price", NETWORK, headers=HTMX).text
    mark = dict(re.findall(r'name="(priced)" value="([^"]*)"', part))
    other = browser.post(f"{MODELS}/learn", {**NETWORK, **mark, "epsilon": "0.3"})
    assert other.status_code == 200
    assert "The model was changed after its price was shown." in other.text
    assert "Learn: 0.3 ε" in other.text
    assert browser.post(f"{MODELS}/learn", {**NETWORK, **mark}).status_code == 303


def test_more_than_remains_cannot_be_paid(browser: Browser) -> None:
    part = browser.post(f"{MODELS}/price", {**NETWORK, "epsilon": "0.6"}, headers=HTMX).text
    assert BUDGET_WARNS in part
    assert re.search("data-ask disabled", part)


def test_a_network_is_learnt_listed_and_shown_with_what_it_cost(browser: Browser) -> None:
    place = learn(browser)
    spent = browser.spent_nano()
    assert 0 < spent <= 200_000_000
    listed = browser.text(MODELS)
    assert f'href="{place}">sex → age</a>' in listed
    assert f'<td class="right">{numbers.epsilon(spent)}</td>' in listed
    page = browser.text(place)
    (found,) = browser.town.service().models.all("people")
    facts = browser.town.service().models.one("people", found.learnt.id).facts
    assert facts is not None
    assert f"<dd>{numbers.price(spent)}</dd>" in page
    assert f"<dd>{numbers.number(facts['n_records'])}</dd>" in page
    assert f"<dd>{facts['n_parameters']}</dd>" in page
    assert f"<dd>{found.learnt.id}</dd>" in page


def test_a_model_tells_probabilities_and_counts_for_nothing(browser: Browser) -> None:
    place = learn(browser)
    spent = browser.spent_nano()
    number = place.rpartition("/")[2]
    models = browser.town.service().models
    question = {"marginal": ["age"], "given": {"sex": "Male"}}
    told = models.ask("people", number, question).document["probabilities"]
    page = browser.text(f"{place}?show=age&given:sex=Male&given:age=")
    shown = re.findall(r'<td class="right estimate"><b>([^<]*)</b>', page)
    assert shown == [numbers.probability(p) for p in told]
    ages = browser.town.meta.domain.attributes[0].value_names
    assert re.findall(r'<th scope="row">([^<]*)</th>', page) == list(ages)
    assert "given sex Male" in page
    assert "<title>age given sex Male, by Bayesian network: sex → age · people" in page
    assert "<option selected>Male</option>" in page
    text = "SELECT COUNT(*) FROM people WHERE sex = 'Male'"
    query = browser.town.service().parse("people", text)
    page = browser.text(f"{place}?count={text.replace(' ', '+')}")
    # Noise may bring it below 100, where the page shows a decimal.
    count = models.count("people", number, query)
    said = numbers.number(count, 1 if abs(count) < 100 else 0)
    assert f"{said} <small>expected" in page
    assert "Ask for an interval" in page
    assert browser.spent_nano() == spent


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("show=age&given:sex=nobody", "nobody"),
        ("count=SELECT+EXP(age)+FROM+people", "count or sum `age`"),
        ("count=SELECT+sex,COUNT(*)+FROM+people+GROUP+BY+sex", "must ask for one count or sum"),
    ],
)
def test_what_a_model_cannot_tell_is_said_on_its_page(
    browser: Browser, query: str, said: str
) -> None:
    page = browser.text(f"{learn(browser)}?{query}")
    assert "The model cannot tell this" in page
    assert said in page.replace("&#39;", "'")


def test_records_and_the_model_itself_come_as_files(browser: Browser) -> None:
    place = learn(browser)
    reply = browser.get(f"{place}/records.csv?n=7&seed=3")
    assert reply.headers["Content-Disposition"].endswith('-records.csv"')
    rows = list(csv.reader(io.StringIO(reply.text)))
    assert sorted(rows[0]) == ["age", "sex"]
    assert len(rows) == 8
    assert reply.text == browser.text(f"{place}/records.csv?n=7&seed=3")
    assert len(browser.text(f"{place}/records.csv").splitlines()) == 1001
    refused = browser.get(f"{place}/records.csv?n=0")
    assert refused.status_code == 422
    assert "“Records” must be a whole number from 1" in refused.text
    assert re.search('name="n" aria-invalid="true"[^>]* value="0"', refused.text)
    network = read_bif(browser.text(f"{place}/export"))
    assert network.structure.edges == (("sex", "age"),)


def test_the_error_of_each_wanted_marginal_is_shown_beside_that_of_buying_them_as_they_are(
    browser: Browser,
) -> None:
    """Both as wanted: .05 each, and `sex` counts in the other's table, too."""
    part = browser.post(f"{MODELS}/price", MARGINALS, headers=HTMX).text
    assert "How far off counts may be" in part
    rows = re.findall(r'<tr><th scope="row">([^<]*)</th>(.*?)</tr>', part)
    assert {name for name, _ in rows} == {"age, sex", "sex"}
    shown = {name: re.findall(r'"right">([\d.,]+)<', cells) for name, cells in rows}
    assert all(int(n[0]) >= 1 for n in shown.values())
    # sqrt(2) / .05, less what the other table tells.
    assert 26.0 < float(shown["age, sex"][2]) < 28.3


def test_a_model_of_marginals_is_learnt_and_exported_as_json(browser: Browser) -> None:
    place = learn(browser, MARGINALS)
    assert "Later counts of any 2 attributes find one of its tables in" in browser.text(place)
    page = browser.text(f"{place}?show=sex")
    assert "age × sex, sex beside all of history" in page
    assert len(re.findall('<td class="right estimate">', page)) == 3
    document = json.loads(browser.text(f"{place}/export"))
    assert document["total"] > 0


def test_a_model_of_merged_values_says_which_on_its_pages(browser: Browser) -> None:
    wish = {**MARGINALS, "selection": "merged"}
    part = browser.post(f"{MODELS}/price", wish, headers=HTMX).text
    assert "Buys 1 table<" in part
    assert "0.07 ε of it then buys tables that merge the values" in part
    assert "rare values merged" in part
    assert browser.spent_nano() == 0
    whole = browser.text(f"{MODELS}?kind=marginals&marginals=age,sex&selection=merged")
    assert 'name="selection" value="merged" checked>' in whole
    place = learn(browser, wish)
    number = place.rsplit("/", 1)[1]
    facts = browser.town.service().models.one("people", number).facts
    assert facts is not None
    [(name, lists)] = facts["merged"].items()
    assert name == "age"
    said = "; ".join(map(", ".join, lists))
    page = browser.text(place)
    assert f"<dt>age: not told apart, in records neither</dt><dd>{said}</dd>" in page
    assert f"age: {said} are not told apart" in browser.text(f"{place}?show=age")
    assert "not told apart; they share" not in browser.text(f"{place}?show=sex")


def test_a_refused_model_is_told_in_its_form(browser: Browser) -> None:
    refused = browser.post(f"{MODELS}/learn", {**NETWORK, "structure": "sex > sex"})
    assert refused.status_code == 422
    assert "“Structure of the network”" in refused.text
    assert re.search('name="structure" aria-invalid="true" aria-describedby="fault"', refused.text)
    assert ">sex &gt; sex</textarea>" in refused.text
    assert browser.get(f"{MODELS}/nobody").status_code == 404


def test_a_form_means_what_its_lines_say() -> None:
    asked = form(structure=" a > b \n\nc->a\nd ", epsilon="1,000.5")
    assert asked.document() == {
        "network": {"edges": [["a", "b"], ["c", "a"]], "variables": ["a", "b", "c", "d"]}
    }
    assert asked.epsilon_nano() == 1_000_500_000_000
    assert form(kind="marginals", marginals="a, b\nc").document() == {
        "marginals": [["a", "b"], ["c"]]
    }
    assert form(kind="marginals").document() == {"marginals": []}
    assert form(kind="tree").kind == "network"
    with pytest.raises(InputError, match="structure"):
        form(structure="a >").document()


def test_only_marginals_are_merged() -> None:
    wish = {"structure": "sex", "marginals": "sex", "selection": "merged"}
    assert form(kind="network", **wish).document() == form(**NETWORK | wish).document()
    merged, plain = (form(kind="marginals", **one) for one in (wish, wish | {"selection": ""}))
    assert merged.document() == {**plain.document(), "selection": "merged"}
    assert merged.mark != plain.mark


def test_a_question_holds_what_is_ticked_and_given() -> None:
    fields = MultiDict([("show", "a"), ("show", "x"), ("given:b", "1"), ("given:c", "")])
    assert question_of(fields, ["a", "b", "c"]) == {"marginal": ["a"], "given": {"b": "1"}}
    assert question_of(MultiDict([("given:b", "1")]), ["a", "b"]) is None


def test_a_long_structure_is_shortened_in_words() -> None:
    edges = [[f"a{i}", "b"] for i in range(6)]
    network = {"edges": edges, "variables": [*(f"a{i}" for i in range(6)), "b", "c"]}
    text = model_words("network", {"network": network}, ())
    assert text == "a0 → b, a1 → b, a2 → b, a3 → b and 3 more"
    assert model_words("network", {"network": "network x {}"}, ()) == "the network in BIF"
    assert model_words("marginals", {"marginals": [[0, 1]]}, ("p", "q")) == (
        "p × q beside all of history"
    )
