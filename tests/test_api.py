"""The API: typed answers, problems in place of errors, the paths of before, and clients of another version."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from extender.api.models import BY_STATUS, NO_SUCH_GANG, PREFIX, PROBLEM, Problem
from extender.cli.inspection.reach import Muster
from extender.http.verbs import Receive, Scope, Send, refuse
from policies.model import Node
from tests.builders import gang
from tests.core.script import Script
from tests.inspecting import asked
from tests.listening import listening
from tests.running import Extender, app_of, running

PATHS = (
    *("/gangs", "/gangs/ns/gang", "/explain/ns/gang", "/defrag/ns/gang"),
    *("/queues", "/domains", "/compute-domains", "/topology"),
)


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    async with running(*(Node(name, (("nvidia.com/gpu", 8), ("pods", 10))) for name in ("n0", "n1"))) as started:
        started.runner.clock = lambda: 5.0
        started.member("a", size=3)
        yield started


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
async def test_the_paths_of_before_answer_the_same(extender: Extender, path: str) -> None:
    answers = [await extender.client.get(where) for where in (PREFIX + path, path)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert answers[0].headers["content-type"] == "application/json"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "detail"),
    [
        ("GET", "/gangs/ns/other", 404, NO_SUCH_GANG, "there is no gang ns/other"),
        ("GET", "/explain/a/b%2Fc", 404, NO_SUCH_GANG, "there is no gang a/b/c"),
        ("GET", "/defrag/ns/other", 404, NO_SUCH_GANG, "there is no gang ns/other"),
        ("GET", "/nothing", 404, BY_STATUS, "openapi.json lists what there is"),
        ("POST", "/gangs", 405, BY_STATUS, "POST is not answered"),
    ],
)
@pytest.mark.parametrize("prefix", [PREFIX, ""])
async def test_what_is_not_answered_is_a_problem(
    extender: Extender, prefix: str, method: str, path: str, status: int, kind: str, detail: str
) -> None:
    answer = await extender.client.request(method, prefix + path)
    problem = Problem.model_validate_json(answer.content)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (problem.status, problem.type) == (status, kind)
    assert detail in problem.detail


@pytest.mark.anyio
async def test_a_failure_of_muster_is_a_problem_without_its_traceback(
    extender: Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.http.api.domains", lambda _: 1 / 0)
    transport = httpx.ASGITransport(extender.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get(f"{PREFIX}/domains")
    assert (answer.status_code, Problem.model_validate_json(answer.content).status) == (500, 500)
    assert "ZeroDivisionError" not in answer.text


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/docs", "/redoc", f"{PREFIX}/docs"])
async def test_no_page_loads_scripts_from_the_internet(extender: Extender, path: str) -> None:
    assert (await extender.client.get(path)).status_code == 404


@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_head_is_answered_as_get_without_the_body(prefix: str) -> None:
    with listening(app_of(Script(*gang("wait", 2)).core)) as url:
        head = httpx.head(f"{url}{prefix}/gangs", trust_env=False)
    assert (head.status_code, head.content, int(head.headers["content-length"]) > 100) == (200, b"", True)


def test_a_muster_of_before_the_versions_is_read() -> None:
    new = app_of(Script(*gang("wait", 2)).core)

    async def before(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(PREFIX):
            return await refuse(send, 404, "Not Found")
        return await new(scope, receive, send)

    with listening(before) as url, httpx.Client(base_url=url, trust_env=False) as client:
        muster = Muster(client, url)
        assert [gang.name for gang in muster.gangs()] == ["wait"]
        assert muster.explanation("default", "wait").gang.pods == muster.gangs()[0].pods
        refused = asked("explain", "default/other", "--url", url)
    assert "there is no gang, job or pod default/other that Muster manages; gangs there: default/wait" in refused.output
