"""From the landing page to an answer, and where that path leads astray."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, expect

from qserver.api.errors import KINDS
from qserver.query import request_fields as fields
from tests.browser.chromium_page import Visit, Visitor

SENTENCE = re.compile(
    r"Between [\d,.]+ and [\d,.]+ with 95 percent confidence; cost 0\.\d+; remaining 0\.\d+\."
)


def set_question(page: Page, low: str, high: str, sex: str) -> None:
    """Open the conditions and set them, as a reader of the page would."""
    page.locator("summary", has_text=re.compile(r"^age")).click()
    page.get_by_label("from", exact=True).locator("visible=true").fill(low)
    page.get_by_label("to", exact=True).locator("visible=true").fill(high)
    page.locator("summary", has_text=re.compile(r"^sex")).click()
    page.get_by_role("checkbox", name=sex, exact=True).check()


def shown_probability(page: Page) -> str:
    return page.locator("[data-probability]").inner_text()


def server_probability(page: Page, threshold: str) -> str:
    """What the server works out for the threshold, for pages without scripts."""
    address = page.url + ("&" if "?" in page.url else "?") + f"at_least={threshold}"
    text = page.request.get(address).text()
    found = re.search(r'<output for="drag"[^>]*>([^<]*)<', text)
    assert found
    return found[1]


def drag_the_threshold(visit: Visit) -> None:
    """Move the threshold by mouse, by typing and by keyboard; what is shown follows."""
    page = visit.page
    # Half lies above the estimate; dragging to the right leaves less.
    assert shown_probability(page) == "0.500"
    box = page.locator(".u-over").bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
    page.mouse.up()
    assert 0.01 < float(shown_probability(page)) < 0.4
    visit.picture("4-threshold")
    # Far from the estimate all probabilities look alike.
    estimate = int(page.locator(".headline").inner_text().split()[0].replace(",", ""))
    for threshold in (f"{estimate}", f"{estimate + 13.5}", f"{estimate + 30}"):
        page.get_by_label("Threshold", exact=True).fill(threshold)
        assert shown_probability(page) == server_probability(page, threshold)
    page.locator("#drag").press("ArrowLeft")
    assert shown_probability(page) != server_probability(page, f"{estimate + 30}")


def find_the_answer_again(page: Page) -> None:
    """As JSON, in the history, and by its job."""
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON", exact=True).click()
    document = json.loads(download.value.path().read_text())
    assert document["source"] == "measured"
    low, high = document["interval"]
    assert 0 < high - low <= 100
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("cell", name="age 30 to 39, sex Female")).to_be_visible()
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("link", name="age 30 to 39, sex Female")).to_be_visible()
    page.get_by_role("link", name="age 30 to 39, sex Female").click()
    expect(page.locator(".sentence")).to_have_text(SENTENCE)


def test_a_newcomer_gets_from_the_landing_page_to_an_answer(visit: Visit, demo_url: str) -> None:
    page = visit.page
    page.goto(demo_url)
    expect(page).to_have_url(f"{demo_url}/portal/")
    visit.picture("1-landing")
    page.get_by_role("link", name="Ask adult").click()
    expect(page.locator("#price .headline")).to_be_visible()
    set_question(page, "30", "39", "Female")
    expect(page.locator("#price .asked")).to_have_text("age 30 to 39, sex Female")
    expect(page.locator("#price .headline")).to_contain_text("0.05991 ε")
    expect(page.get_by_text("Known now, at no cost: nothing yet.")).to_be_visible()
    visit.picture("2-price")

    # A longer interval by the keyboard: cheaper at once, the length in the form follows.
    slider = page.get_by_role("slider")
    slider.press("ArrowRight")
    expect(page.get_by_role("textbox", name=fields.LENGTH.label)).to_have_value("75")
    expect(page.locator("#price .headline")).to_contain_text("0.03994 ε")
    slider.press("ArrowLeft")
    page.get_by_role("button", name="Ask: 0.05991 ε").click()

    expect(page.locator(".sentence")).to_have_text(SENTENCE)
    expect(page.locator(".sub")).to_contain_text("0.24 of 0.3 ε remains")
    visit.picture("3-answer")
    assert visit.faults() == []

    drag_the_threshold(visit)
    find_the_answer_again(page)


def test_an_exhausted_budget_is_told_before_and_a_longer_interval_is_offered(
    visit: Visit, demo_url: str
) -> None:
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult?is:race=Black&length=15")
    notice = page.get_by_text("The budget cannot pay for this.")
    button = page.get_by_role("button", name="Ask:")
    expect(notice).to_be_visible()
    expect(button).to_be_disabled()
    visit.picture("told")
    assert visit.faults() == []
    slider = page.get_by_role("slider")
    slider.press("End")
    expect(notice).to_be_hidden()
    expect(button).to_be_enabled()
    slider.press("Home")
    expect(button).to_be_disabled()
    # Sent all the same, it is refused, and says what there is.
    visit.expected_statuses.add(409)
    page.locator("[data-ask]").evaluate("(button) => { button.disabled = false; button.click(); }")
    expect(page.get_by_role("heading", name=KINDS["budget_exhausted"].title)).to_be_visible()
    expect(page.get_by_text("Nothing was spent.")).to_be_visible()
    visit.picture("refused")
    assert visit.faults() == []


def test_a_bad_question_is_explained_and_can_be_mended(visit: Visit, demo_url: str) -> None:
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult")
    set_question(page, "39", "30", "Female")
    notice = page.locator("#price .notice")
    expect(notice).to_contain_text("“age” must have low <= high")
    visit.picture("ends-swapped")
    assert visit.faults() == []
    page.get_by_label("to", exact=True).locator("visible=true").fill("forty")
    page.get_by_label("Confidence, %").fill("90")
    expect(notice).to_contain_text("“age, to” must be a finite number, got 'forty'")
    visit.expected_statuses.add(422)
    page.locator("#question").evaluate("(form) => form.submit()")
    expect(page.get_by_role("heading", name="The query is wrong")).to_be_visible()
    visit.picture("refused")
    expect(page.get_by_label("to", exact=True).locator("visible=true")).to_have_value("forty")
    page.get_by_role("link", name="SQL", exact=True).click()
    text = page.get_by_label(fields.QUERY.label)
    text.fill('{"where": {"height": 3}}')
    text.blur()
    expect(notice).to_contain_text("Attributes: age, workclass")
    text.fill("SELECT EXP(age) FROM adult")
    text.blur()
    expect(notice).to_contain_text("count or sum `age`")
    expect(notice.locator("pre")).to_contain_text("^^^")
    visit.picture("sql-refused")
    assert visit.faults() == []
    text.fill("SELECT COUNT(*) FROM adult WHERE sex = 'Female' OR age >= 80")
    text.blur()
    expect(page.locator("#price .headline")).to_be_visible()
    text.fill('{"any": [{"age": {"at_least": 80}}, {"sex": "Female"}]}')
    text.blur()
    expect(page.locator("#price .headline")).to_be_visible()


def test_a_label_of_many_is_found_by_the_keyboard_alone(visit: Visit, demo_url: str) -> None:
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("year of birth")
    expect(page.locator(".conditions summary:visible")).to_have_count(0)
    page.keyboard.press("Control+A")
    page.keyboard.type("whole years")
    expect(page.locator(".conditions summary:visible")).to_have_count(1)
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("summary").first).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("50")
    page.keyboard.press("Tab")
    page.keyboard.type("59")
    page.keyboard.press("Tab")
    expect(page.locator("#price .asked")).to_have_text("age 50 to 59")
    visit.picture("keyboard")


def test_everything_can_be_done_without_scripts(visitor: Visitor, demo_url: str) -> None:
    visit = visitor.open(scripts=False)
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult?is:sex=Male&length=400")
    page.get_by_role("button", name="Show the price").click()
    expect(page.locator("#price .headline")).to_contain_text("ε")
    visit.picture("price")
    page.locator("#price button.button").click()
    expect(page.locator(".sentence")).to_contain_text("with 95 percent confidence")
    page.get_by_label("Threshold", exact=True).fill("1")
    page.get_by_role("button", name="Work it out").click()
    expect(page.locator("[data-probability]")).to_have_text("1.000")
    visit.picture("answer")


def test_a_table_is_asked_in_sql_and_read_on_a_desk_and_a_phone(
    visitor: Visitor, demo_url: str
) -> None:
    visit = visitor.open()
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult?within=400")
    expect(page.locator("#price .headline")).to_be_visible()
    page.get_by_role("link", name="Write it as SQL").click()
    text = page.get_by_label(fields.QUERY.label)
    expect(page.locator("#price .headline")).to_be_visible()
    text.fill("SELECT sex, COUNT(*) FROM adult GROUP BY sex")
    # The price shown is that of another question: it cannot be paid for this one.
    expect(page.locator("[data-ask]")).to_be_disabled()
    text.blur()
    expect(page.locator("#price .asked")).to_have_text(
        "SELECT sex, COUNT(*) FROM adult GROUP BY sex"
    )
    visit.picture("price")
    assert visit.faults() == []
    page.get_by_role("button", name="Ask:").click()
    expect(page.get_by_role("rowheader")).to_have_text(["Female", "Male", "NULL"])
    expect(page.locator(".sentence")).to_contain_text("3 intervals, each with 95 percent")
    assert page.locator(".whisker .dot").count() == 3
    visit.picture("table")
    assert visit.faults() == []
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert download.value.path().read_text().startswith('"sex","COUNT(*)","COUNT(*)_low"')
    phone = visitor.open(size="phone", scheme="dark", scripts=False)
    phone.page.goto(page.url)
    expect(phone.page.get_by_role("rowheader", name="Female")).to_be_visible()
    assert phone.overflow() == 0
    phone.picture("table")


def test_what_is_typed_and_taken_back_can_be_asked_again(visit: Visit, demo_url: str) -> None:
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult?is:race=White&length=600")
    button = page.locator("[data-ask]")
    expect(button).to_be_enabled()
    length = page.get_by_role("textbox", name=fields.LENGTH.label)
    length.press("End")
    length.press("0")
    expect(button).to_be_disabled()
    length.press("Backspace")
    expect(button).to_be_enabled()


def test_a_model_is_learnt_asked_and_kept_with_its_price_shown_first(
    visitor: Visitor, demo_url: str
) -> None:
    visit = visitor.open()
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_text("Say what to learn. You see its price here first.")).to_be_visible()
    page.get_by_label("Structure of the network").fill("sex > income\nrace")
    page.get_by_label("Tables may cost").fill("0.02")
    page.get_by_label("Tables may cost").blur()
    expect(page.locator("#price .headline")).to_contain_text("0.02 ε")
    visit.picture("price")
    assert visit.faults() == []
    page.get_by_role("button", name="Learn: 0.02 ε").click()
    page.get_by_role("link", name="Open the model").click()
    page.get_by_role("checkbox", name="income").check()
    page.get_by_label("sex given").select_option("Female")
    page.get_by_role("button", name="Show probabilities").click()
    expect(page.get_by_role("rowheader")).to_have_text(["<=50K", ">50K", "unknown"])
    visit.picture("probabilities")
    assert visit.faults() == []
    page.get_by_label("In SQL, or as JSON").fill("SELECT COUNT(*) FROM adult WHERE sex = 'Male'")
    page.get_by_role("button", name="Show the count").click()
    expect(page.get_by_text("expected by the model, without a guarantee")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert len(download.value.path().read_text().splitlines()) == 1001
    with page.expect_download() as download:
        page.get_by_role("link", name="BIF", exact=True).click()
    assert download.value.path().read_text().startswith("network")


def test_a_model_is_learnt_without_scripts(visitor: Visitor, demo_url: str) -> None:
    visit = visitor.open(scripts=False, size="phone")
    page = visit.page
    page.goto(f"{demo_url}/portal/datasets/adult/models")
    page.get_by_role("radio", name="Marginals").check()
    page.get_by_label("Marginals to buy").fill("sex, race")
    page.get_by_label("Tables may cost").fill("0.01")
    page.get_by_role("button", name="Show the price").click()
    expect(page.locator("#price .headline")).to_contain_text("0.01 ε")
    page.get_by_role("button", name="Learn: 0.01 ε").click()
    page.get_by_role("link", name="Open the model").click()
    page.get_by_role("checkbox", name="race").check()
    page.get_by_role("button", name="Show probabilities").click()
    expect(page.get_by_role("rowheader", name="White")).to_be_visible()
    assert visit.overflow() == 0
    visit.picture("model")
