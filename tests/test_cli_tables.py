"""Tables and texts of every command in terminals of any width: a name is neither broken nor cut."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from extender.api.models import (
    ComputeDomainView,
    DeviceStock,
    DomainRoom,
    DomainStock,
    Explanation,
    GangView,
    MemberView,
    PlaceView,
    QueueView,
    QuotaView,
    VictimView,
    WaitingView,
)
from extender.cli.doctor.command import Report, show_report
from extender.cli.doctor.finding import error
from extender.cli.inspection.queue_tree import show_queues
from extender.cli.inspection.tables import show_domains, show_explanation, show_gangs
from extender.cli.release.command import show_steps
from extender.cli.release.work import Survey
from extender.cli.simulate import show_tables
from extender.cli.terminal import Terminal, grid
from extender.simulation.report.tables import Table

WIDTHS = (80, 100, 200)
NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,60}[a-z0-9]", fullmatch=True), min_size=1, max_size=4, unique=True)
MESSAGE = "0 of 4 members fit at once: 3 of 40 nodes have room for 8 nvidia.com/gpu; held by team-a/{} until 14:00"


def drawn(draw: Callable[[Console], None], width: int | None) -> list[str]:
    """The lines in a terminal of that width; None: in a pipe."""
    written = io.StringIO()
    out = Terminal(file=written, force_terminal=width is not None, width=width or 160, markup=False, highlight=False)
    out.untruncated = width is None
    draw(out)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue()).splitlines()]


def gang(name: str, message: str = "4 members are bound") -> GangView:
    return GangView(
        namespace=f"team-{name}", name=name, state="NoRoom", message=message, for_s=4000.0, bound=0,
        held=0, members=128, min_member=128, waiting=128, story=[(3.0, f"NoRoom: {message}")],
        pods=[MemberView(name=f"{name}-0", uid=name, state="Gated", node=f"node-{name}")],
    )  # fmt: skip


def queue(kind: str, name: str, parent: str) -> QueueView:
    quota = QuotaView(flavor="a100-80gb", resource="nvidia.com/gpu", nominal=32, used=32, borrowed=8, lent=0)
    waits = WaitingView(namespace="team", name=f"w-{name}", state="NoQuota", for_s=9, message=MESSAGE.format(name))
    return QueueView(
        kind=kind, name=name, namespace="team" if kind == "LocalQueue" else "", parent=parent, share=None,
        quotas=[quota], reserving=1, admitted=1, pending=1, waiting=[waits],
        problems=[f"it names the flavor {name}, which does not exist"], warnings=[],
    )  # fmt: skip


def explanation(name: str) -> Explanation:
    short = f"4 nodes short; held by team/{name}"
    room = DomainRoom(name=f"clique-{name}", nodes=4, free=0, want=4, closed=0, held_by=[], reason=short)
    return Explanation(
        gang=gang(name, MESSAGE.format(name)), asks=["4 x 8 GPUs"], places=[PlaceView(name=name, members=3)],
        remedies=[f"wait for team/{name} to finish: that frees enough in the cluster"], level="clique",
        required=True, domains=[room], domains_in_all=1, preemption=f"preemption is off; on, {name} goes",
        victims=[VictimView(name=f"team/{name}", told=MESSAGE.format(name))],
    )  # fmt: skip


def drawings(names: list[str]) -> dict[str, Callable[[Console], None]]:
    """Each table of each command."""
    domains = [
        DomainStock(level="clique", name=name, inside=f"rack-{name}", nodes=18, open=18, whole=17, gpus=72,
                    free_gpus=68, gangs=[f"team/{other}" for other in names],
                    devices=[DeviceStock(name=f"gpu-{other}", devices=72, free=4, promised=4, used=64)
                             for other in names])
        for name in names
    ]  # fmt: skip
    of_nvidia = [
        ComputeDomainView(namespace="team", name=name, uid=name, num_nodes=4, members=2, workloads=names, nodes=2,
                          cliques=names, problems=[MESSAGE.format(name)])
        for name in names
    ]  # fmt: skip
    queues = [
        *(queue("Cohort", f"all-{name}", "") for name in names),
        *(queue("ClusterQueue", f"cq-{name}", f"all-{name}") for name in names),
        *(queue("LocalQueue", f"lq-{name}", f"cq-{name}") for name in names),
    ]
    steps = [
        {"namespace": "team", "kind": "PyTorchJob", "name": name, "says": [MESSAGE.format(name)], "changes": True}
        for name in names
    ]
    figures = Table("Waiting", ("What the GPUs did", *names), [("held without work", *("1.2 h" for _ in names))])
    why = Table("Never started", ("job", "why"), [(name, MESSAGE.format(name)) for name in names], words=True)
    findings = [
        error("NobodyServes", f"team/{name}", MESSAGE.format(name), f"kubectl delete pod {name}") for name in names
    ]
    return {
        "gangs": lambda out: show_gangs([gang(name, MESSAGE.format(name)) for name in names], out),
        "domains": lambda out: show_domains(domains, of_nvidia, out),
        "queues": lambda out: show_queues(queues, out),
        "explain": lambda out: show_explanation(explanation(names[0]), out),
        "release": lambda out: show_steps(steps, Survey(), out),
        "simulate": lambda out: show_tables([figures, why], out),
        "doctor": lambda out: show_report(Report(findings, {}), out),
    }


@settings(max_examples=25, deadline=None)
@given(names=NAMES)
def test_no_name_is_broken_or_cut_at_any_width(names: list[str]) -> None:
    for command, draw in drawings(names).items():
        shown = names if command != "explain" else names[:1]
        for width in (*WIDTHS, None):
            lines = drawn(draw, width)
            words = [word.strip(";,:)(") for line in lines for word in re.split(r"[\s/]+", line)]
            for name in shown:
                assert any(word == name or word.endswith(f"-{name}") for word in words), (command, width, name, lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_with_usual_names_every_line_fits(width: int) -> None:
    names = ["train-annotations", "ml-research-llama-70b"]
    for command, draw in drawings(names).items():
        lines = drawn(draw, width)
        assert max(map(len, lines)) <= width, (command, "\n".join(lines))


def test_in_a_pipe_each_row_is_one_line_with_every_column() -> None:
    names = [f"{'long-' * 12}{number}" for number in range(3)]
    lines = drawn(drawings(names)["gangs"], None)
    assert lines[0].split() == ["NAMESPACE", "GANG", "STATE", "BOUND", "HELD", "MEMBERS", "MIN", "FOR", "MESSAGE"]
    rows = [line for line in lines[2:] if line]
    assert [MESSAGE.format(name) in row for name, row in zip(names, rows, strict=True)] == [True] * 3


def test_a_narrow_terminal_gets_the_message_below_and_then_fewer_columns() -> None:
    draw = drawings(["ml-research-llama-70b"])["gangs"]
    wide, narrow = drawn(draw, 120), drawn(draw, 80)
    assert "HELD" in wide[0]
    assert "MESSAGE" not in wide[0]
    assert wide[3].startswith("   0 of 4 members fit at once")
    assert narrow[-1] == "(not shown: HELD, BOUND, MIN; -o wide shows all)"
    assert narrow[0].split() == ["NAMESPACE", "GANG", "STATE", "MEMBERS", "FOR"]


def test_a_text_shares_its_row_where_there_is_room_to_read_it() -> None:
    table = grid(("NAME", "WHY"), [("a", "word " * 20)], below="WHY")
    assert drawn(lambda out: out.print(table), 80)[2:4] == [
        f"a      {'word ' * 13}word".rstrip(),
        f"       {'word ' * 6}".rstrip(),
    ]


def test_a_table_that_is_still_too_wide_has_its_first_column_above_the_others() -> None:
    table = grid(
        ("LABEL", "#ONE", "#TWO"),
        [("a label of some length that nobody can shorten any more at all", "1" * 9, "2" * 9)],
    )
    assert drawn(lambda out: out.print(table), 80) == [
        "LABEL", "         ONE         TWO".replace("ONE", "ONE"), "─" * 80,
        "a label of some length that nobody can shorten any more at all", "   111111111   222222222",
    ]  # fmt: skip
