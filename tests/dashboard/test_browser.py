"""The pages in a real Chromium: the way through them, by keyboard, without scripts, on a phone, dark, and live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from devcluster.chromium import FLAGS, chromium
from tests.dashboard.connected import People, shown, update
from tests.dashboard.served import Served, serving
from tests.dashboard.world import World, busy, measured

GANG = "team-a/pretrain-8b"
PAGES = (
    "",
    "overview",
    f"map?gang={GANG}",
    "queues",
    "day",
    f"workloads/{GANG}",
    "workloads/team-a/tokenizer",
    "workloads/team-a/serving-chat",
    "?phase=idle",
    "reasons",
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
expect.set_options(timeout=20_000)  # of a machine that others use, too
DESK, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=800)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def world() -> World:
    return busy()


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    # Playwright has the event loop of this thread.
    with ThreadPoolExecutor(1) as thread:
        cluster = thread.submit(asyncio.run, shown(world, measured=measured(world))).result()
    with serving(cluster, People(admin="*", ann="team-a research")) as running:
        yield running


class Visit:
    """A page of a browser that asks as a person, and all that went wrong on it."""

    def __init__(self, page: Page, served: Served) -> None:
        self.page, self._served = page, served
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._note)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self._served.address}/{path}")
        return self.page

    def _note(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith((f"{self._served.address}/", "data:")):
            self.elsewhere.append(url)


@pytest.fixture(params=[("admin", DESK, "light", True)])
def visit(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Visit]:
    """A visit. Its parameter has the person, the size of the window, light or dark, and whether scripts run."""
    person, size, scheme, scripts = request.param
    context = browser.new_context(
        extra_http_headers={"Authorization": f"Bearer {person}"},
        viewport=size,
        color_scheme=scheme,
        java_script_enabled=scripts,
    )
    context.set_default_timeout(20_000)
    visiting = Visit(context.new_page(), served)
    yield visiting
    context.close()
    assert visiting.errors == []
    assert visiting.elsewhere == []


def test_the_way_through_all_pages(visit: Visit) -> None:
    page = visit.go("")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workloads")
    page.get_by_role("link", name="pretrain-8b").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pretrain-8b")
    expect(page.get_by_text("put 1 node with room back in service")).to_be_visible()
    page.get_by_role("link", name="Show on the map").click()
    expect(page.get_by_text("needs room for 18 members in one clique")).to_be_visible()
    page.get_by_role("link", name="team-a/pretrain-8b").click()
    page.get_by_role("link", name="NoRoom").click()
    expect(page.locator("#NoRoom")).to_be_in_viewport()
    page.locator("#NoRoom").get_by_role("link").click()
    expect(page.get_by_role("rowheader")).to_have_count(2)
    pages = page.get_by_role("navigation", name="Pages")
    for name in ("Overview", "Map", "Queues", "Last day", "Reasons", "Workloads"):
        pages.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(pages.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")


def test_the_list_is_filtered_while_one_types(visit: Visit) -> None:
    page = visit.go("")
    page.get_by_label("Text").press_sequentially("rlhf")
    expect(page.get_by_role("rowheader")).to_have_count(2)
    expect(page).to_have_url(re.compile("text=rlhf"))
    expect(page.get_by_label("Text")).to_be_focused()
    expect(page.get_by_label("Text")).to_have_value("rlhf")
    page.get_by_label("Namespace").select_option("team-a")
    expect(page.get_by_text("No workload matches")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("link", name="Waiting 4").click()
    expect(page.get_by_role("rowheader")).to_have_count(4)


def test_what_would_help_is_asked_for_when_it_is_opened(visit: Visit) -> None:
    page = visit.go("")
    page.get_by_role("row", name="pretrain-8b team-a").get_by_text("What would help").click()
    expect(page.get_by_text("use preferred-topology instead of required-topology")).to_be_visible()


def test_the_map_of_what_one_chooses(visit: Visit) -> None:
    page = visit.go("map")
    page.get_by_label("Room for").select_option("research/long-context")
    expect(page.get_by_text("where 17 fit and 3 lack room")).to_be_visible()
    page.get_by_label("Blocks").select_option("block")
    expect(page.locator("svg.block")).to_have_count(4)
    page.get_by_text("The map as a table").click()
    expect(page.get_by_role("table")).to_contain_text("block-1")


@pytest.mark.parametrize("visit", [("admin", DESK, "light", False)], indirect=True)
def test_pages_work_without_scripts(visit: Visit) -> None:
    page = visit.go("?phase=waiting")
    page.get_by_label("Text").fill("distill")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("rowheader")).to_have_count(1)
    expect(page.get_by_role("link", name="Waiting 1")).to_have_attribute("aria-current", "true")
    page.get_by_text("What would help").click()
    page.get_by_role("link", name="For this workload").click()
    expect(page.get_by_text("create 1 more pod")).to_be_visible()


@pytest.mark.parametrize(
    "visit", [("admin", DESK, "light", True), ("admin", PHONE, "dark", True)], indirect=True, ids=["desk", "phone"]
)
def test_pages_keep_the_rules_of_axe_and_fit(visit: Visit) -> None:
    for path in PAGES:
        page = visit.go(path)
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        violations = Axe().run(page, options={"runOnly": {"type": "tag", "values": RULES}}).response["violations"]
        faults = [
            (violation["id"], violation["help"], [node["html"][:200] for node in violation["nodes"][:3]])
            for violation in violations
        ]
        assert faults == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide"


def test_a_keyboard_suffices(visit: Visit) -> None:
    page = visit.go("")
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    keys.press("Tab")
    expect(page.get_by_label("Namespace")).to_be_focused()
    for _ in range(10):  # the text, the button, six tabs, and the link of the first row
        keys.press("Tab")
    expect(page.get_by_role("link", name="NoRoom").first).to_be_focused()
    keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_text("use preferred-topology instead of required-topology")).to_be_visible()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"


def test_a_change_arrives_without_a_reload_and_disturbs_nobody(visit: Visit, served: Served, world: World) -> None:
    page = visit.go("")
    page.evaluate("window.stays = true")
    page.get_by_role("row", name="pretrain-8b team-a").get_by_text("What would help").click()
    remedy = page.get_by_text("use preferred-topology instead of required-topology")
    expect(remedy).to_be_visible()
    page.get_by_label("Text").focus()
    expect(page.locator("html")).to_have_attribute("data-live", "yes")
    changed = update(world, measured(world))
    [gang] = [candidate for candidate in changed.gangs if candidate.name == "distill"]
    gang.message = "0 of 7 members exist"
    served.take(changed)
    expect(page.get_by_text("0 of 7 members exist")).to_be_visible()
    assert page.evaluate("window.stays")
    expect(remedy).to_be_visible()
    expect(page.get_by_label("Text")).to_be_focused()
    served.take(update(world, measured(world)))
    expect(page.get_by_text("4 of 5 members exist")).to_be_visible()


def test_a_change_between_the_page_and_its_stream_is_not_missed(visit: Visit, served: Served, world: World) -> None:
    held = []
    visit.page.route("**/events*", lambda route: held.append(route))
    page = visit.go("")
    page.wait_for_function("document.getElementById('live')._htmx || true")
    changed = update(world, measured(world))
    [gang] = [candidate for candidate in changed.gangs if candidate.name == "distill"]
    gang.message = "3 of 7 members exist"
    served.take(changed)
    expect(page.get_by_text("4 of 5 members exist")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.get_by_text("3 of 7 members exist")).to_be_visible()
    served.take(update(world, measured(world)))


def test_a_page_says_that_it_is_old(visit: Visit, served: Served, world: World) -> None:
    page = visit.go("")
    expect(page.get_by_text("The extender is not connected")).to_have_count(0)
    served.lose()
    expect(page.get_by_text("The extender is not connected")).to_be_visible()
    served.cluster.stale_since = None
    served.take(update(world, measured(world)))
    expect(page.get_by_text("The extender is not connected")).to_have_count(0)


def test_a_page_says_that_the_dashboard_has_gone(browser: Browser, world: World) -> None:
    with ThreadPoolExecutor(1) as thread:
        cluster = thread.submit(asyncio.run, shown(world)).result()
    context = browser.new_context(extra_http_headers={"Authorization": "Bearer admin"})
    with serving(cluster, People(admin="*")) as running:
        page = context.new_page()
        page.goto(running.address)
        expect(page.locator("html")).to_have_attribute("data-live", "yes")
        expect(page.get_by_text("This page is not live")).to_be_hidden()
    expect(page.get_by_text("This page is not live")).to_be_visible()
    context.close()
