"""The API under random requests: never a 500, never an answer that its document does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from extender.api.models import PREFIX, PROBLEM, Problem
from extender.http.server import App
from tests.api_answers import READ, small_cluster
from tests.fuzz.hostile import TEXTS
from tests.listening import listening
from tests.running import app_of

EXAMPLES = 60
SCHEMATHESIS = "testserver"
"""The host that schemathesis asks."""


@pytest.fixture(scope="module")
def app() -> App:
    return app_of(small_cluster().core, name=SCHEMATHESIS)


@pytest.mark.parametrize("path", READ)
def test_whatever_is_asked_is_answered_as_the_document_says(app: App, path: str) -> None:
    import schemathesis

    schema = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", app)

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=schema[path]["get"].as_strategy())
    def ask(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate()

    ask()


@pytest.fixture(scope="module")
def client(app: App) -> Iterator[httpx.Client]:
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("prefix", [PREFIX, ""])
@pytest.mark.parametrize("page", ["gangs", "explain", "defrag"])
def test_any_text_as_a_name_is_a_problem_at_most(client: httpx.Client, prefix: str, page: str) -> None:
    for text in (*filter(None, TEXTS), "x" * 20_000, "\ud800"):
        name = quote(text.encode(errors="surrogatepass"), safe="")
        for path in (f"{name}/gang", f"team-a/{name}", f"{name}/{name}", f"{name}?{name}={name}"):
            answer = client.get(f"{prefix}/{page}/{path}")
            assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM), path
            assert Problem.model_validate_json(answer.content).status == 404


@pytest.mark.parametrize("path", ["/gangs", "/explain/team-a/job-train", "/defrag/team-a/job-train"])
@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_a_body_and_odd_headers_change_nothing(client: httpx.Client, prefix: str, path: str) -> None:
    headers = {"content-type": "application/json", "accept": "text/html", "range": "bytes=0-1", "x": "y" * 4_000}
    odd = client.request("GET", prefix + path, content=b"{" * 4_000, headers=headers)
    assert (odd.status_code, odd.headers["content-type"]) == (200, "application/json")
