"""Access to the dashboard: the API server decides, its answer is kept for a minute, and nothing else is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from dashboard.access import KEPT_S, MOST_PEOPLE, Person, Reviews, UndecidedError, UnknownPersonError
from extender.kube.api.connection import ApiError, UnreachableError

EXTENDER = "system:serviceaccount:kube-system:muster-scheduler"


class Cluster:
    """An API server that knows some tokens and rights. ``asked``: the requests that it got."""

    def __init__(self) -> None:
        self.users = {"a-token": "anna", "root-token": "root", "extender-token": EXTENDER}
        self.may = {("anna", "team-a"), ("root", "")}
        self.asked: list[Mapping[str, Any]] = []
        self.error: ApiError | None = None
        self.audiences = ["muster-dashboard"]
        self.now = 0.0

    async def ask(self, _path: str, body: Mapping[str, Any]) -> bytes:
        self.asked.append(body)
        if self.error is not None:
            raise self.error
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            known = {"authenticated": True, "user": {"username": user, "groups": ["staff"]}}
            audiences = {"audiences": self.audiences} if "audiences" in spec else {}
            return msgspec.json.encode({"status": {**known, **audiences} if user else {"error": "unknown"}})
        attributes = spec["resourceAttributes"]
        assert (attributes["verb"], attributes["resource"], spec["groups"]) == ("list", "pods", ["staff"])
        return msgspec.json.encode({"status": {"allowed": (spec["user"], attributes.get("namespace", "")) in self.may}})

    def reviews(self) -> Reviews:
        return Reviews(self.ask, audience="muster-dashboard", extender=EXTENDER, clock=lambda: self.now)


pytestmark = pytest.mark.anyio


async def test_a_tenant_sees_its_own_namespaces_and_an_operator_all() -> None:
    reviews = Cluster().reviews()
    anna = await reviews.person("a-token", ["team-b", "team-a"])
    assert anna == Person("anna", frozenset({"team-a"}))
    assert anna.sees("team-a")
    assert not anna.sees("team-b")
    assert not anna.sees("")
    root = await reviews.person("root-token", ["team-b", "team-a"])
    assert root.sees_all
    assert root.sees("anything")


@pytest.mark.parametrize("token", ["", "nobody", "x" * 20_000])
async def test_an_unknown_token_is_nobody(token: str) -> None:
    with pytest.raises(UnknownPersonError):
        await Cluster().reviews().person(token, ["team-a"])


async def test_an_answer_is_kept_for_a_minute_and_a_right_that_was_taken_away_ends_then() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    await reviews.person("a-token", ["team-a"])
    before = len(cluster.asked)
    cluster.may.clear()
    cluster.now = KEPT_S - 1
    assert (await reviews.person("a-token", ["team-a"])).sees("team-a")
    assert len(cluster.asked) == before
    cluster.now = KEPT_S + 1
    assert not (await reviews.person("a-token", ["team-a"])).sees("team-a")
    cluster.users.clear()
    cluster.now = 3 * KEPT_S
    with pytest.raises(UnknownPersonError):
        await reviews.person("a-token", ["team-a"])


async def test_pages_that_ask_at_once_share_the_questions() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    for now in (0.0, KEPT_S + 1):
        cluster.asked.clear()
        cluster.now = now
        people = await asyncio.gather(*(reviews.person("a-token", ["team-a"]) for _ in range(20)))
        assert {person.namespaces for person in people} == {frozenset({"team-a"})}
        assert len(cluster.asked) == 3


async def test_a_failure_is_not_kept() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    cluster.error = UnreachableError("no answer")
    with pytest.raises(UndecidedError):
        await reviews.person("a-token", ["team-a"])
    cluster.error = None
    assert (await reviews.person("a-token", ["team-a"])).sees("team-a")


async def test_a_namespace_that_is_new_is_asked_about_alone() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    await reviews.person("a-token", ["team-a"])
    before = len(cluster.asked)
    await reviews.person("a-token", ["team-a", "team-new"])
    assert len(cluster.asked) == before + 1


@pytest.mark.parametrize("error", [UnreachableError("no answer"), ApiError(403, "Forbidden", "no")])
async def test_nothing_is_shown_where_nobody_can_say(error: ApiError) -> None:
    cluster = Cluster()
    cluster.error = error
    with pytest.raises(UndecidedError):
        await cluster.reviews().person("a-token", ["team-a"])
    assert not await cluster.reviews().is_extender("extender-token")


async def test_an_answer_that_says_nothing_allows_nothing() -> None:
    async def ask(_path: str, body: Mapping[str, Any]) -> bytes:
        if body["kind"] == "TokenReview":
            return b'{"status": {"authenticated": true, "user": {"username": "anna"}}}'
        return b"{}"

    reviews = Reviews(ask, audience="a", extender="e")
    person = await reviews.person("a-token", ["team-a"])
    assert not person.sees_all
    assert not person.sees("team-a")


async def test_the_number_of_people_that_are_remembered_is_bounded() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    for number in range(MOST_PEOPLE + 50):
        with pytest.raises(UnknownPersonError):
            await reviews.person(f"token-{number}", [])
    assert len(reviews._known) == MOST_PEOPLE


async def test_only_the_extender_may_bring_updates_and_only_with_a_token_for_the_dashboard() -> None:
    cluster = Cluster()
    reviews = cluster.reviews()
    assert await reviews.is_extender("extender-token")
    assert not await reviews.is_extender("root-token")
    assert not await reviews.is_extender("nobody")
    cluster.audiences = []
    assert not await reviews.is_extender("extender-token")
