"""The self-check of a running Muster: rounds, reports of drift, its repair by a restart, and `muster verify`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from extender.api.models import DifferenceView, VerifyView
from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts
from extender.cli.inspection import verify
from extender.cli.main import main
from extender.config.settings import load
from extender.core.effects import Hint
from extender.core.engine import Engine
from extender.core.events import Event, NodeSeen, PodSeen, Synced
from extender.http.server import create_app
from extender.observe.metrics import Metrics
from extender.observe.verified import UNCHECKED
from extender.runtime.runner import Runner
from extender.runtime.verifier import FIRST_PAUSE_S, NO_CHECK, Verifier, report_drift
from policies.model import Controller
from tests.builders import cluster, single
from tests.doctored import shipped
from tests.running import Written, eventually

pytestmark = pytest.mark.anyio

NODES = cluster("a: 2x8")
RUNS = single("runs", node="a-0", phase="Running")
GONE = single("gone", node="a-1", phase="Running")
MUSTER = replace(
    single("muster-7d9f-x2", gpus=0), controller=Controller("apps/v1", "ReplicaSet", "muster-7d9f", "rs-uid")
)


class Checked:
    """A core that a verifier looks at: it knows of a pod that is there no more, once ``drift`` was called."""

    def __init__(self, *, every_s: float = 0.0) -> None:
        self.now = 1000.0
        self.written = Written()
        self.runner = Runner(Engine(), self.written, clock=lambda: self.now)
        self.metrics = Metrics(lambda: self.runner.core.state)
        self.told: list[str] = []
        self.verifier = Verifier(
            self.runner,
            Engine,
            self.objects,
            every_s=every_s,
            restart=self.restart,
            report=self.told.append,
            observer=self.metrics,
            again_s=0.0,
        )
        for event in self.objects():
            self.runner.dispatch(event)
        self.runner.dispatch(Synced())
        app = create_app(self.runner, self.metrics, verifier=self.verifier, bind_timeout_s=30, max_body=1 << 20)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    def objects(self) -> Iterator[Event]:
        return iter([*map(NodeSeen, NODES), PodSeen(RUNS), PodSeen(MUSTER)])

    def restart(self) -> None:
        self.runner.start_over(Engine(), self.written, "restarted")
        for event in self.objects():
            self.runner.dispatch(event)
        self.runner.act()

    def drift(self) -> None:
        self.runner.core.state.claims.confirm(GONE)

    async def round(self) -> VerifyView:
        """Ask for a round, and wait for its result."""
        begun = await self.shown("?begin=true")
        await eventually(lambda: self.verifier.rounds > begun.rounds and not self.verifier.under_way)
        return await self.shown()

    async def shown(self, query: str = "") -> VerifyView:
        return VerifyView.model_validate_json((await self.client.get(f"/api/v1/verify{query}")).content)

    def counted(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self.metrics.render().decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if (sample.name, sample.labels) == (name, labels)
        )


@asynccontextmanager
async def checked(every_s: float = 0.0) -> AsyncIterator[Checked]:
    checking = Checked(every_s=every_s)
    await checking.runner.acting.wait()
    task = asyncio.create_task(checking.verifier.run())
    try:
        yield checking
    finally:
        task.cancel()
        await asyncio.wait([task])
        await checking.runner.drain()
        await checking.client.aclose()


async def test_a_round_that_agrees_tells_how_much_it_has_compared() -> None:
    async with checked() as checking:
        view = await checking.round()
    assert (view.differences, view.unconfirmed, view.problem) == ([], 0, "")
    assert (view.compared["claims"], view.compared["room"]) == (1, 2)
    assert checking.counted("muster_verify_checks_total", outcome="agrees") == 1
    assert checking.told == []


async def test_drift_is_told_and_repaired_by_a_restart_once() -> None:
    async with checked(every_s=900.0) as checking:
        core = checking.runner.core
        checking.drift()
        view = await checking.round()
        assert [(difference.kind, difference.object) for difference in view.differences] == [
            ("claims", f"pod {GONE.uid}")
        ]
        assert checking.runner.core is not core, "the core is a new one"
        assert view.restarts == checking.counted("muster_verify_restarts_total") == 1
        assert checking.counted("muster_verify_differences_total", kind="claims") == 1
        assert checking.told[0].startswith(
            "1 difference was found twice in a row by the self-check; its core was restarted"
        )
        await checking.runner.acting.wait()
        assert (await checking.round()).differences == []
        checking.drift()
        assert (await checking.round()).restarts == 1, "not so soon again"
        checking.now += FIRST_PAUSE_S
        assert (await checking.round()).restarts == 2


async def test_without_an_interval_nothing_is_repaired() -> None:
    async with checked() as checking:
        checking.drift()
        view = await checking.round()
    assert (len(view.differences), view.restarts) == (1, 0)
    assert "its core goes on as it is" in checking.told[0]


async def test_nothing_is_checked_while_another_replica_leads_or_the_core_recovers() -> None:
    async with checked() as checking:
        checking.runner.acting.clear()
        assert (await checking.round()).problem == NO_CHECK


async def test_a_second_core_that_fails_is_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async with checked(every_s=900.0) as checking:
        monkeypatch.setattr("extender.runtime.verification.Check._walk", fail)
        view = await checking.round()
    assert "RuntimeError: a bug" in view.problem
    assert view.restarts == 0


async def test_drift_is_an_event_on_the_pod_and_on_its_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with checked() as checking:
        seen: list[Hint] = []
        monkeypatch.setattr(checking.runner, "write_event", seen.append)
        report_drift(checking.runner, MUSTER.name, "it differs")
        report_drift(checking.runner, "elsewhere", "it differs")
    (hint,) = seen
    assert (hint.uid, hint.owner, hint.reason) == (
        MUSTER.uid,
        Controller("apps/v1", "Deployment", "muster", ""),
        "Drift",
    )


def view(**facts: object) -> VerifyView:
    done = {"rounds": 1, "under_way": False, "confirming": False, "progress": 0.0, "every_s": 600.0, "restarts": 0}
    outcome = {"problem": "", "ago_s": 0.2, "seconds": 1.5, "differences": [], "unconfirmed": 0}
    return VerifyView.model_validate({**done, **outcome, "compared": {"claims": 3}, "left_out": {}, **facts})


class Asked:
    """Stands for the running Muster of `muster verify`."""

    def __init__(self, *answers: VerifyView) -> None:
        self.answers = list(answers)

    def verified(self, *, begin: bool) -> VerifyView:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


DIFFERS = DifferenceView(kind="claims", object="pod a/b", running="bound on n", rebuilt="no room")


@pytest.mark.parametrize(
    ("last", "code", "text"),
    [
        (view(), 0, "compared: 3 claims; 0 differences stay"),
        (view(differences=[DIFFERS]), 1, "after a restart: no room"),
        (view(problem=NO_CHECK), 2, f"not checked: {NO_CHECK}"),
    ],
)
def test_the_command_waits_for_the_round_and_ends_by_what_it_finds(
    last: VerifyView, code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = view(rounds=0, under_way=True, progress=0.5)
    client = Asked(waits, waits.model_copy(update={"confirming": True}), last)

    monkeypatch.setattr(verify, "reach", lambda _way: nullcontext(client))
    monkeypatch.setattr(verify, "pause", lambda _s: None)
    result = CliRunner().invoke(main, ["verify", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == code, result.output
    assert text in result.output
    result = CliRunner().invoke(main, ["verify", "--last", "--url", "http://127.0.0.1:1", "-o", "json"])
    assert (result.exit_code, json.loads(result.stdout)["rounds"]) == (code, 1)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([view(rounds=0, under_way=True), view(rounds=0, ago_s=None)], "nothing was checked yet"),
        ([UNCHECKED], "not checked: this process has no self-check"),
    ],
)
def test_the_command_ends_if_the_process_knows_nothing_of_its_round(
    answers: list[VerifyView], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "reach", lambda _way: nullcontext(Asked(*answers)))
    monkeypatch.setattr(verify, "pause", lambda _s: None)
    result = CliRunner().invoke(main, ["verify", "--url", "http://127.0.0.1:1"])
    assert (result.exit_code, text in result.output) == (2, True)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, ""),
        ({"problem": NO_CHECK}, f"its last self-check has no result: {NO_CHECK}"),
        ({"restarts": 2}, "its self-check has found drift; its core was restarted 2 times"),
        (
            {"differences": [DIFFERS]},
            "its self-check has found drift; its core was not restarted: pod a/b: bound on n; after a restart: no room",
        ),
    ],
)
def test_the_doctor_reports_what_the_self_check_has_found(facts: dict[str, object], text: str) -> None:
    findings = examine(Facts(load(None), scheduler=shipped(), drift=view(**facts))).findings
    texts = [finding.what for finding in findings if finding.code in ("Drift", "NotVerified")]
    assert texts == ([text] if text else [])
