"""`muster bench`: a command for each benchmark, and one that runs them all into the results that are committed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import (
    contention,
    core,
    courses,
    creation,
    dashboard,
    devices,
    gang,
    jobs,
    levels,
    memory,
    official,
    preemption,
    queues,
    racks,
    report,
    takeover,
    throughput,
    waiting,
    writes,
)
from benchmarks.faults import campaign
from benchmarks.faults.theatre import GENTLE, Scale
from benchmarks.job_stage import ARMS, Arm, Shape
from benchmarks.running import Output, carry_out_all, run
from benchmarks.stage import MODES, Mode
from benchmarks.traces import fragmentation_command, replay_command
from extender.cli.bench.gangs import gangs_command
from extender.cli.loadtest import GANGS, LATENCY, latency_command

main = typer.Typer(
    name="muster bench",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Nodes = Annotated[int, typer.Option(min=1, help="Nodes of 8 GPUs, 16 to a clique.")]
Size = Annotated[int, typer.Option(min=1, help="Pods per gang.")]
Repeat = Annotated[
    int, typer.Option(min=1, help="Rounds, of which the slow path takes part in the first; tables show medians.")
]
Modes = Annotated[list[Mode] | None, typer.Option("--mode", help="What to measure, all by default. " + MODES)]
Patience = Annotated[float, typer.Option(min=1, help="Seconds after which a run is given up.")]


@main.callback()
def bench() -> None:
    """Measure Muster on a real control plane (etcd, kube-apiserver, kube-scheduler; kwok plays the nodes).

    Exit code 0: measured, no violation. 1: a guarantee was violated. 2: it could not be measured.
    """


@main.command("throughput", short_help="Gang pods bound a second, and their cost.")
def throughput_command(
    nodes: Nodes = 1000,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of pods with one GPU each.")] = 375,
    size: Size = 8,
    mode: Modes = None,
    repeat: Repeat = 1,
    patience: Patience = 300,
    output: Output = None,
) -> None:
    """How many gang pods are bound in a second, and the cost of a pod for every process."""
    run(throughput.benchmark(f"throughput-{nodes}", nodes, gangs, size, mode or list(Mode), repeat, patience), output)


@main.command("levels", short_help="What three topology levels cost.")
def levels_command(
    nodes: Nodes = 1000,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of pods with one GPU each.")] = 188,
    size: Size = 8,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds of both setups in turn; the table shows medians.")] = 3,
    patience: Patience = 300,
    output: Output = None,
) -> None:
    """The cost of three topology levels: throughput with them against first fit without any."""
    run(levels.benchmark(nodes, gangs, size, repeat, patience), output)


@main.command("jobs", short_help="How fast suspended Jobs are started whole.")
def jobs_command(
    nodes: Nodes = 1000,
    shape: Annotated[
        list[str] | None, typer.Option(help="Pods of a Job x GPUs of a pod; 8x1, 8x8 and 64x8 by default.")
    ] = None,
    jobs_of: Annotated[
        int | None,
        typer.Option(
            "--jobs", min=1, help="Jobs of each shape; by default they fill 3/4 of the nodes, or are 1,500 pods."
        ),
    ] = None,
    arm: Annotated[
        list[Arm] | None, typer.Option(help="What to measure, all but native and muster-trials by default. " + ARMS)
    ] = None,
    throttled: Annotated[
        bool, typer.Option(help="Leave kube-controller-manager its default of 20 requests a second.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; tables show medians.")] = 1,
    patience: Patience = 300,
    output: Output = None,
) -> None:
    """How fast suspended Jobs are started whole, and how many writes each client needs."""
    try:
        shapes = [Shape.parse(text) for text in shape] if shape else jobs.SHAPES
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--shape") from None
    arms = arm or [known_arm for known_arm in Arm if known_arm not in (Arm.NATIVE, Arm.TRIALS)]
    name = f"jobs-{nodes}"
    run(jobs.benchmark(name, nodes, shapes, jobs_of, arms, repeat, patience, throttled=throttled), output)


@main.command("creation", short_help="Large Jobs while pods are made slowly.")
def creation_command(nodes: Nodes = 500, patience: Patience = 600, output: Output = None) -> None:
    """How Jobs of hundreds of pods start while 20 pods a second are made, and small ones behind them."""
    run(creation.benchmark(nodes, patience), output)


@main.command("racks", short_help="Gangs on NVLink racks, with ComputeDomains.")
def racks_command(
    racks_of: Annotated[int, typer.Option("--racks", min=1, help="Cliques of 18 nodes with 4 GPUs each.")] = 20,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs with a ComputeDomain each.")] = 20,
    size: Annotated[int, typer.Option(min=1, max=18, help="Pods per gang, each with a node's GPUs.")] = 16,
    mode: Modes = None,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; tables show medians.")] = 3,
    patience: Patience = 300,
    output: Output = None,
) -> None:
    """How gangs of 16 nodes with GPUs and channels by claims start on racks of 18, beside kube-scheduler alone."""
    run(racks.benchmark(racks_of, gangs, size, mode or racks.MODES, repeat, patience), output)


@main.command("gang", short_help="How long one large gang takes.")
def gang_command(
    nodes: Nodes = 500,
    size: Size = 512,
    mode: Modes = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often, on the same cluster; the table shows medians.")] = 3,
    output: Output = None,
) -> None:
    """How long one large gang takes, from its last pod's creation to its last Binding, and how many cliques it uses."""
    run(gang.benchmark(nodes, size, mode or list(Mode), repeat), output)


@main.command("waiting", short_help="What gangs that cannot start cost.")
def waiting_command(
    nodes: Nodes = 100,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs that do not fit.")] = 1000,
    window: Annotated[float, typer.Option(min=1, help="Seconds of each measurement.")] = 30,
    rate: Annotated[float, typer.Option(min=0.1, help="Unrelated pods that come and go, a second.")] = 10,
    alike: Annotated[bool, typer.Option(help="Let all gangs ask for the same; else no two do.")] = False,
    mode: Modes = None,
    output: Output = None,
) -> None:
    """The load of gangs that cannot start on kube-scheduler and the extender while they wait (nominate and ungated)."""
    modes = mode or [Mode.NOMINATE, Mode.UNGATED]
    run(waiting.benchmark("waiting", nodes, gangs, window, rate, modes, alike=alike), output)


@main.command("contention", short_help="Gangs that want the same room.")
def contention_command(
    nodes: Nodes = 32,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of pods that take a whole node each.")] = 12,
    size: Size = 8,
    wait: Annotated[float, typer.Option(min=1, help="Seconds of waiting whose cost is measured.")] = 60,
    mode: Modes = None,
    output: Output = None,
) -> None:
    """Gangs of which a few fit, created in the worst order: when those are whole, and the later cost of the others."""
    modes = mode or [Mode.NOMINATE, Mode.UNGATED]
    run(contention.benchmark(nodes, gangs, size, wait, modes), output)


@main.command("devices", short_help="What devices cost the core.")
def devices_command(
    nodes: Nodes = 5000,
    devices_of_each: Annotated[int, typer.Option("--devices", min=1, help="Devices of each node.")] = 8,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; the table shows medians.")] = 3,
    output: Output = None,
) -> None:
    """Measure the core while it evaluates every device for twenty requirements, and then one slice that changes."""
    run(devices.benchmark(nodes, devices_of_each, repeat), output)


@main.command("dashboard", short_help="What a dashboard costs the extender.")
def dashboard_command(
    nodes: Nodes = 5000,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of four; those beyond a quarter of the nodes wait.")] = 2000,
    viewers: Annotated[int, typer.Option(min=1, help="Pages that are open.")] = 20,
    browsers: Annotated[int, typer.Option(min=0, help="So many of them in Chromium, the others by plain clients.")] = 2,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds without a dashboard, without viewers, and with all.")] = 3,
    spell: Annotated[float, typer.Option(min=5, help="Seconds of each measurement.")] = 15,
    output: Output = None,
) -> None:
    """The dashboard's cost for the extender, and how soon its viewers see the cluster and its changes."""
    run(dashboard.benchmark(nodes, gangs, viewers, browsers, repeat, spell), output)


@main.command("core", short_help="How long the core alone takes.")
def core_command(
    nodes: Annotated[
        list[int] | None, typer.Option(min=core.FEWEST, help="Cluster sizes; 1000, 5000 and 20000 by default.")
    ] = None,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs that do not fit, for the admission pass.")] = 1000,
    output: Output = None,
) -> None:
    """How long the core alone takes to decide, and its memory. Needs no control plane."""
    run(core.benchmark(nodes or [1000, 5000, 20000], gangs), output)


@main.command("preemption", short_help="How long the search for victims takes.")
def preemption_command(
    nodes: Nodes = 5000,
    candidates: Annotated[
        list[int] | None, typer.Option(min=1, help="Workloads that may be evicted; 100 and 700 by default.")
    ] = None,
    output: Output = None,
) -> None:
    """How long the search for victims takes on a full cluster. Needs no control plane."""
    run(preemption.benchmark(nodes, candidates or [100, 700]), output)


@main.command("queues", short_help="What queues cost the core.")
def queues_command(
    count: Annotated[
        int, typer.Option("--queues", min=queues.ROUNDS, help="5 nodes and 15 workloads for each.")
    ] = queues.QUEUES,
    output: Output = None,
) -> None:
    """The cost of queues for the core, and Kueue's scalability test. Needs no control plane; takes minutes."""
    run(queues.benchmark(count), output)


@main.command("courses", short_help="Kueue's scalability test on a cluster.")
def courses_command(
    part: Annotated[int, typer.Option(min=1, help="One Job in so many; 1 plays all 15,000.")] = courses.PART,
    repeat: Repeat = 1,
    patience: Patience = 1800,
    output: Output = None,
) -> None:
    """The courses of Kueue's scalability test as Jobs in queues on a real control plane: how fast, and who waits."""
    run(courses.benchmark(part, repeat, patience), output)


@main.command("memory", short_help="Memory on a large cluster, and readiness.")
def memory_command(
    nodes: Nodes = 5000,
    pods: Annotated[int, typer.Option(min=1, help="Pods that run on them.")] = 20000,
    platform: Annotated[
        str, typer.Option(help='Whose nodes; "" for nodes with four names of resources.')
    ] = memory.PLATFORM,
    output: Output = None,
) -> None:
    """The memory of the extender on a large cluster in use, and how soon it is ready."""
    run(memory.benchmark(nodes, pods, platform), output)


@main.command("takeover", short_help="How soon the other replica goes on.")
def takeover_command(
    nodes: Nodes = 5000,
    pods: Annotated[int, typer.Option(min=0, help="Pods of gangs that run on them.")] = 20000,
    repeat: Annotated[int, typer.Option(min=1, help="How often the leader is killed.")] = 3,
    output: Output = None,
) -> None:
    """How soon the other of two replicas takes over when the leader is killed."""
    run(takeover.benchmark(nodes, pods, repeat), output)


@main.command("faults", short_help="Kill and delay what gangs depend on.")
def faults_command(
    rounds: Annotated[int, typer.Option(min=1, help="Each is every fault once, on a control plane of its own.")] = 3,
    gentle: Annotated[bool, typer.Option(help="Short outages, as in the test suite.")] = False,
    output: Output = None,
) -> None:
    """Kill, stop, delay and delete parts that gangs depend on while they start, and check how the gangs stand then."""
    run(campaign.benchmark(rounds, GENTLE if gentle else Scale()), output)


@main.command("all", short_help="All of them, for docs/benchmarks.md.")
def all_command(
    only: Annotated[list[str] | None, typer.Option(help="Names of benchmarks, as in throughput-1000.")] = None,
    repeat: Repeat = 3,
    results: Annotated[Path, typer.Option(help="Where the results are kept.")] = official.RESULTS,
    again: Annotated[bool, typer.Option(help="Measure anew what has been measured at this commit.")] = False,
) -> None:
    """Run all benchmarks with the settings of docs/benchmarks.md, keep the results, and write the document's tables.

    A figure measured on this machine at this commit with these settings is not measured again. So a run that broke
    off, or in which a part failed, goes on where it was when it is started again.
    """
    known = official.benchmarks(repeat)
    chosen = [step for step in known if not only or step.name in only]
    if unknown := sorted(set(only or ()) - {step.name for step in chosen}):
        there_are = f"there is no benchmark {', '.join(unknown)}; there are {', '.join(step.name for step in known)}"
        raise typer.BadParameter(there_are, param_hint="--only")
    # The document quotes only the results in its own folder.
    finish = report.write if results.resolve() == official.RESULTS else None
    results.mkdir(parents=True, exist_ok=True)
    steps = [(step, results / f"{step.name}.json") for step in chosen]
    raise typer.Exit(carry_out_all(steps, go_on=not again, finish=finish))


@main.command("writes", short_help="What a write costs the API server.")
def writes_command(
    pods: Annotated[int, typer.Option(min=1, help="Pods that each way of writing is tried on.")] = 500,
    repeat: Repeat = 3,
    output: Output = None,
) -> None:
    """The cost of a write for the API server: nomination, ungating, pinning and Binding, by patch and answer."""
    run(writes.benchmark(pods, repeat), output)


main.command("replay", short_help="A trace under every scheduler.")(replay_command)
main.command("fragmentation", short_help="Cliques that a trace's gangs use.")(fragmentation_command)
main.command("gangs", short_help=GANGS)(gangs_command)
main.command("latency", short_help=LATENCY)(latency_command)

_BY_TOPIC = (
    "latency", "throughput", "gang", "levels", "jobs", "creation", "waiting", "contention", "courses", "memory",
    "takeover", "dashboard", "faults", "writes", "core", "preemption", "queues", "replay", "fragmentation", "all",
)  # fmt: skip
"""A running extender first, then what needs a control plane, then what needs none. Others come before all of these."""
_PLACES = {name: place for place, name in enumerate(_BY_TOPIC)}
main.registered_commands.sort(key=lambda command: _PLACES.get(command.name or "", -1))
