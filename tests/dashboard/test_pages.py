"""The pages without a browser: their size, their lists, what they escape, and that they load nothing from elsewhere."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import httpx
import pytest

from dashboard.app import app
from dashboard.cluster import Cluster
from dashboard.pages import drawing
from dashboard.pages.colours import LOOKS, looks
from dashboard.pages.meanings import REASONS
from dashboard.pages.queues import grow
from dashboard.pages.rendering import clauses, part_of, span
from extender.api.feed import NodeView, NodeWorkload, Update
from extender.api.models import DeviceStock, LevelView, QueueView, TopologyView
from extender.core.explain.reasons import CODES
from policies.model import Topology
from policies.model.topology import SILENT
from policies.steps import finish
from tests.core.compute_domains import in_domain, racks
from tests.dashboard.connected import People, shown, update
from tests.dashboard.world import NAMESPACES, World, busy, measured
from tests.documents.meanings import FILE, made
from tests.explaining import explain

PAGES = (
    "",
    "overview",
    "map",
    "map?gang=team-a/pretrain-8b",
    "queues",
    "day",
    "reasons",
    "workloads/team-a/pretrain-8b",
)
HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202etxt.exe"
LONG = "n" * 253
SELECTED = "gpu.example.com with memory of project-x"


@pytest.fixture(scope="module")
def world() -> World:
    return busy()


@pytest.fixture(scope="module")
def cluster(world: World) -> Cluster:
    return asyncio.run(shown(world, measured=measured(world)))


def get(cluster: Cluster, path: str, person: str = "admin") -> httpx.Response:
    """Ask as that person; without a token if the name is empty."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app(cluster, People(admin="*", ann="team-a research", nobody="")))
        headers = {"Authorization": f"Bearer {person}"} if person else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://dashboard", headers=headers) as client:
            return await client.get(path)

    return asyncio.run(asked())


def text_of(cluster: Cluster, path: str, person: str = "admin") -> str:
    answer = get(cluster, path, person)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_loads_only_what_the_dashboard_serves(cluster: Cluster, page: str) -> None:
    answer = get(cluster, f"/{page}")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"\sstyle=|<style|\son[a-z]+=|<script(?! (?:defer )?src=)|javascript:", answer.text) == []
    assert re.findall(r"(?:src|href|action|hx-get)=\"(?:[a-z]+:|//|/)", answer.text) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(cluster: Cluster, page: str) -> None:
    answer = get(cluster, f"/{page}")
    named = re.findall(r'(?:src|href)="([^"]*static/[^"]*)"', answer.text)
    assert len(named) == 5
    for link in named:
        assert get(cluster, str(answer.url.join(link))).status_code == 200


def test_links_are_relative_so_that_a_proxy_can_serve_below_a_path(cluster: Cluster) -> None:
    deep = text_of(cluster, "/workloads/team-a/pretrain-8b")
    assert 'href="../../queues"' in deep
    assert 'href="./queues"' in text_of(cluster, "/")


def test_a_request_without_a_token_gets_a_page_that_says_so(cluster: Cluster) -> None:
    answer = get(cluster, "/", person="")
    assert answer.status_code == 401
    assert "muster ui" in answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert get(cluster, "/api/v1/gangs", person="").headers["content-type"] == "application/json"


def test_the_list_is_filtered_and_counts_what_matches(cluster: Cluster) -> None:
    page = text_of(cluster, "/?namespace=research&text=llm")
    assert "No workload matches" in page
    page = text_of(cluster, "/?namespace=research&text=moe+member")
    assert "moe-ablation" in page
    assert "rlhf-sweep-1" not in page
    page = text_of(cluster, "/?reason=NoRoom")
    assert page.count('role="rowheader"') == 2


def test_the_workload_pages_have_what_explain_says() -> None:
    """The reason, what would help and the expected start of more than fifty workloads, most of which wait."""
    world = busy()
    for number in range(48):
        strict = Topology(required="clique") if number % 3 == 0 else SILENT
        namespace, size = NAMESPACES[number % 3], 2 + 7 * number % 40
        world.come(
            namespace, f"more-{number}", size, 600.0 * (number % 5) or None, gpus=1 + number % 4, topology=strict
        )
    world.advance(120)
    cluster, state = asyncio.run(shown(world)), world.core.state
    waiting = expected = 0
    for key, gang in state.workloads.items():
        explanation = explain(state, gang, world.now, finish(world.core.outlook(gang, world.now)))
        page = unescape(text_of(cluster, f"/workloads/{key.namespace}/{key.name}"))
        view = explanation.gang
        assert f">{view.state}<" in page
        waiting += view.status == "PENDING"
        for text in (*clauses(view.message), *explanation.asks, *(explanation.remedies if view.waiting else ())):
            assert text in page, f"{key} has no {text!r}"
        if view.expected is not None:
            expected += 1
            for at in (view.expected.start, view.expected.earliest, view.expected.latest):
                assert f'datetime="{at:%Y-%m-%dT%H:%M:%SZ}"' in page, f"{key} is expected at {at}"
            assert view.expected.rests_on in page
    assert waiting >= 30
    assert expected >= 10


def test_the_page_names_no_workload_that_the_person_may_not_see(cluster: Cluster) -> None:
    page = text_of(cluster, "/workloads/team-a/pretrain-8b", "ann")
    assert "rlhf-sweep-1" in page
    for text in (
        page,
        text_of(cluster, "/map", "ann"),
        text_of(cluster, "/queues", "ann"),
        text_of(cluster, "/", "ann"),
    ):
        assert "team-b/" not in text
        assert "vision-finetune" not in text


def test_idle_gangs_are_flagged_and_listed(cluster: Cluster) -> None:
    page = text_of(cluster, "/?phase=idle")
    assert page.count('role="rowheader"') == page.count('class="chip idle"') == 2
    assert "embed-docs" in page
    page = text_of(cluster, "/workloads/team-a/serving-chat")
    assert re.search(r"3\.2 %<[^>]*> of 24 GPUs, mean of the last 20 min", page)
    assert text_of(cluster, "/map").count('class="chip idle"') == 2
    assert "3 % busy" in text_of(cluster, "/map")
    assert ">34</span> idle" in text_of(cluster, "/queues")
    gangs = {gang["name"]: gang["utilisation"] for gang in get(cluster, "/api/v1/gangs").json()}
    assert gangs["serving-chat"]["idle_gpus"] == 24
    assert gangs["vision-finetune"] is None
    explanation = get(cluster, "/api/v1/explain/team-a/serving-chat").json()
    assert explanation["gang"]["utilisation"] == gangs["serving-chat"]


def test_idle_gpus_are_counted_for_everybody_and_named_to_their_tenants(cluster: Cluster) -> None:
    for person in ("admin", "ann", "nobody"):
        assert '<b class="num">34</b> of 226 measured GPUs are idle' in text_of(cluster, "/overview", person)
        assert "3 % busy" in text_of(cluster, "/map", person)
    assert "serving-chat" not in text_of(cluster, "/map", "nobody")
    assert 'class="chip idle"' not in text_of(cluster, "/map", "nobody")


def test_nothing_is_said_of_use_where_it_is_not_known(world: World) -> None:
    unmeasured = asyncio.run(shown(world))
    for path in ("/", "/overview", "/map", "/queues", "/workloads/team-a/serving-chat"):
        page = text_of(unmeasured, path)
        assert "GPU use" not in page
        assert "idle" not in page.lower().replace("idle_gpus", "")
        assert "busy" not in page


def test_devices_and_compute_domains_are_shown() -> None:
    script = racks("a: 3x4", "b: 4x4", domains=("train",))
    script.see(in_domain("train", 4))
    cluster = asyncio.run(shown(script))
    free = re.findall(r"<td>(\d of \d) <bdi>compute-domain-default-channel.nvidia.com</bdi>", text_of(cluster, "/map"))
    assert free == ["3 of 3", "0 of 4"]
    page = text_of(cluster, "/workloads/default/train")
    assert "ComputeDomain <bdi>train</bdi>" in page
    assert "4 pods with a channel, 0 nodes prepared" in page


def test_the_selectors_of_devices_are_shown_to_whoever_sees_all() -> None:
    world = World(1)
    kinds = [DeviceStock(name=name, devices=4, free=4, promised=0, used=0) for name in ("gpu.example.com", SELECTED)]
    sent = update(world)
    sent.nodes[0].devices = kinds
    cluster = Cluster()
    asyncio.run(cluster.take(sent))
    assert SELECTED in text_of(cluster, "/map")
    page = text_of(cluster, "/map", "ann")
    assert SELECTED not in page
    assert "4 of 4 <bdi>gpu.example.com</bdi>" in page


def test_the_list_helps_in_place(cluster: Cluster) -> None:
    assert "put 1 node with room back in service" in text_of(cluster, "/help/team-a/pretrain-8b")
    assert "create 1 more pod that names this gang" in text_of(cluster, "/help/team-b/distill")


def test_the_map_draws_the_room_that_a_gang_lacks(cluster: Cluster) -> None:
    page = text_of(cluster, "/map?gang=team-a/pretrain-8b")
    assert "needs room for 18 members in one clique" in page
    assert "where 17 fit and 1 lacks room" in page
    assert page.count('class="need"') == 8


def test_the_map_of_wider_domains(cluster: Cluster) -> None:
    page = text_of(cluster, "/map?level=block")
    assert page.count('class="block"') == 4


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_a_person_who_sees_nothing(cluster: Cluster, page: str) -> None:
    answer = get(cluster, f"/{page}", "nobody")
    assert answer.status_code == (404 if page.startswith("workloads/") else 200)


def test_hostile_names_and_texts_are_shown_as_text() -> None:
    world = World(2)
    made_of = update(world)
    gang = update(busy()).gangs[0]
    strange = gang.model_copy(
        update={
            "name": HOSTILE,
            "message": HOSTILE,
            "story": [(1.0, HOSTILE)],
            "objects": [HOSTILE],
            "status": "PENDING",
        }
    )
    long = gang.model_copy(update={"name": LONG, "message": LONG * 4})
    there = NodeWorkload(namespace=gang.namespace, name=HOSTILE, gpus=4)
    node = NodeView(name=HOSTILE, domains={"clique": HOSTILE, "block": HOSTILE}, gpus=4, used=4, workloads=[there])
    queue = QueueView(kind="ClusterQueue", namespace="", name=HOSTILE, parent="", reserving=0, admitted=0, pending=0,
                      quotas=[], share=None, waiting=[], problems=[HOSTILE], warnings=[HOSTILE])  # fmt: skip
    sent = made_of.model_copy(update={"gangs": [strange, long], "nodes": [node], "queues": [queue]})
    cluster = Cluster()
    asyncio.run(cluster.take(sent))
    for page in ("", "overview", "map", "queues", f"?text={HOSTILE}", f"?namespace={HOSTILE}", f"map?gang=a/{HOSTILE}"):
        answer = get(cluster, f"/{page}")
        assert answer.status_code == 200
        assert "<img" not in answer.text, page
    answer = get(cluster, f"/workloads/{gang.namespace}/{HOSTILE}")
    assert answer.status_code == 200
    assert "<img" not in answer.text
    assert "&lt;img src=x" in answer.text


@pytest.fixture(scope="module")
def large() -> Cluster:
    """5,004 nodes, a third of them with four workloads each, and 2,000 gangs that wait."""
    world = World(1)
    [gang] = [candidate for candidate in update(busy()).gangs if candidate.name == "pretrain-8b"]
    gangs = [gang.model_copy(update={"name": f"job-{number}"}) for number in range(2000)]
    nodes = [_node(number) for number in range(5004)]
    cluster = Cluster()
    asyncio.run(cluster.take(update(world).model_copy(update={"gangs": gangs, "nodes": nodes})))
    return cluster


def _node(number: int) -> NodeView:
    name = f"rack{number // 18}-{number % 18}"
    domains = {"clique": f"rack-{number // 18}", "block": f"block-{number // 360}"}
    shared = 4 if number % 3 == 0 else 1
    there = [
        NodeWorkload(namespace=f"team-{number % 7}", name=f"job-{(number * 7 + index) % 2000}", gpus=4 // shared)
        for index in range(shared)
    ]
    return NodeView(name=name, domains=domains, gpus=4, used=4, workloads=there, open=number % 50 > 0)


def test_the_map_of_5000_nodes_is_below_a_megabyte(large: Cluster) -> None:
    page = text_of(large, "/map")
    assert len(page.encode()) < 1_000_000
    assert page.count('class="block"') == 278


def test_only_changed_blocks_of_the_map_are_drawn_again() -> None:
    nodes = {node.name: node for node in map(_node, range(180))}
    cluster = Cluster()
    levels = [LevelView(name="clique", key="c", domains=[], outside=0, contradictions=[])]
    update = Update(number=0, as_of=1, views_as_of=1, whole=True, nodes=[*nodes.values()])
    asyncio.run(cluster.take(update.model_copy(update={"topology": TopologyView(configured=True, levels=levels)})))

    def drawn(person: str = "admin") -> int:
        before = drawing._block.cache_info().misses
        assert text_of(cluster, "/map", person).count('class="block"') == 10
        return drawing._block.cache_info().misses - before

    assert drawn() == 10
    assert drawn() == 0
    changed = nodes["rack3-5"].model_copy(update={"open": False})
    asyncio.run(cluster.take(Update(number=1, as_of=2, views_as_of=1, nodes=[changed])))
    assert drawn() == 1
    assert drawn("nobody") == 10, "what others may not see is drawn otherwise"


def test_a_list_of_2000_gangs_comes_in_parts(large: Cluster) -> None:
    page = text_of(large, "/")
    assert page.count('role="rowheader"') == 50
    assert "1 to 50 of 2000" in page
    assert "1951 to 2000 of 2000" in text_of(large, "/?part=4000")
    assert len(page.encode()) < 200_000


def test_every_reason_has_a_meaning() -> None:
    assert {*CODES} == {*REASONS}
    assert FILE.read_text() == made(), "docs/waiting.md changed: python -m tests.documents.meanings"


def test_looks_differ_while_there_are_looks_left() -> None:
    nodes = [
        NodeView(
            name=f"n-{number}",
            domains={"clique": "a"},
            workloads=[NodeWorkload(namespace="x", name=f"w-{number}", gpus=1)],
        )
        for number in range(LOOKS)
    ]
    drawn = looks(nodes, "clique")
    assert len({look.number for look in drawn.values()}) == LOOKS
    assert len({look.label for look in drawn.values()}) == LOOKS


def test_cohorts_in_a_circle_are_drawn_beside_each_other() -> None:
    def cohort(name: str, parent: str) -> QueueView:
        return QueueView(kind="Cohort", namespace="", name=name, parent=parent, reserving=0, admitted=0, pending=0,
                         quotas=[], share=None, waiting=[], problems=[], warnings=[])  # fmt: skip

    trees = grow([cohort("a", "b"), cohort("b", "a"), cohort("c", "a"), cohort("d", "")])
    assert sorted(branch.queue.name for branch in trees) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_600, "1 h"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")],
)
def test_spans_in_words(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_clauses_of_a_message() -> None:
    assert clauses("one; two (a; b); three") == ["one", "two (a; b)", "three"]


def test_parts_of_a_list() -> None:
    assert part_of([], 3, 50)[1].pages == 1
    assert part_of(range(120), 2, 50)[0] == range(50, 100)
    assert part_of(range(120), 9, 50)[1].first == 101
