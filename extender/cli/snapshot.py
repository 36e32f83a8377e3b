"""`muster snapshot` and `muster simulate --snapshot`: a cluster into a file, and what Muster would do with it."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from extender.cli.inspection.options import Context, Kubeconfig
from extender.cli.output import STANDARD_OUTPUT, Output, OutputError
from extender.cli.servers import Config
from extender.cli.terminal import stop_on
from extender.config.settings import Settings, SettingsError, load
from extender.core.events import BudgetSeen, Event, GroupSeen, OwnerSeen, QueueSeen
from extender.core.ledger.queues import key_of
from extender.kube.client import CredentialsError, Kube
from extender.kube.kinds.own import own_kinds
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import Registry
from extender.kube.snapshots.pseudonyms import anonymise as replace_names
from extender.kube.snapshots.snapshot import ClusterFacts, ClusterFile, SnapshotError, decode, encode, take
from extender.simulation.replay.queueing import TITLES
from extender.simulation.whatif import Verdict, decide
from policies.words import counted, many

_MOST_NAMES = 5


def snapshot(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write; - is standard output.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
    anonymise: Annotated[bool, typer.Option(help="Replace every name, UID and label value by a pseudonym.")] = False,
) -> None:
    """Write a cluster to a file, as far as a decision reads it.

    For `muster simulate --snapshot`. Nodes, pods, PodGroups, owners of gangs, jobs and queue objects are in it;
    environment, commands, images and secrets are not.
    """
    with stop_on(SettingsError, SnapshotError, OutputError, CredentialsError):
        settings, target = load(config), Output(output)
        taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        reader = Reader(settings.scheduler_names, registry=Registry(own_kinds(settings.job_kinds)))
        file = asyncio.run(_take(Kube.connect(kubeconfig or settings.kubeconfig, context), taken, reader))
        counts = [(len(file.nodes), "node"), (len(file.pods), "pod"), (file.groups, "PodGroup")]
        counts += [(n, thing) for n, thing in ((len(file.jobs), "job"), (len(file.queues), "queue object")) if n]
        summary = ", ".join(many(count, thing) for count, thing in counts)
        if anonymise:
            file = replace_names(file, [level.key for level in settings.levels])
            summary += ", without their names"
        target.write(encode(file))
    typer.echo(f"{output}: {summary}", err=output == STANDARD_OUTPUT)


def read(path: Path, settings: Iterable[Settings], priorities: Mapping[str, int] | None = None) -> ClusterFacts:
    """Read the facts of a snapshot file. Raises SnapshotError.

    ``priorities``: the values of WorkloadPriorityClasses, instead of those in the file.
    """
    schedulers = [name for setting in settings for name in setting.scheduler_names]
    try:
        return decode(path.read_bytes(), schedulers, priorities)
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def of_others(facts: ClusterFacts, settings: Iterable[Settings]) -> Iterator[str]:
    """Tell which schedulers none of these settings serves, by waiting pods, and how Muster can take over their pods."""
    served = {name for setting in settings for name in setting.scheduler_names}
    names = Counter(pod.scheduler for pod in facts.pods if pod.live and not pod.node and pod.scheduler not in served)
    if names:
        first = ", ".join(f"{name} ({count:,})" for name, count in names.most_common(_MOST_NAMES))
        more = ", ..." if len(names) > _MOST_NAMES else ""
        waiting = f"{counted(names.total(), 'pod', 'waits', 'wait')} for another schedulerName: {first}{more}"
        yield f"{waiting}; --scheduler-name NAME asks what Muster would do with them"


def verdicts(facts: ClusterFacts, settings: Mapping[str, Settings]) -> list[Verdict]:
    """The verdict for each of the settings."""
    others: list[Event] = [*facts.queues, *map(GroupSeen, facts.groups), *map(OwnerSeen, facts.owners)]
    others += [*facts.storage, *facts.volumes, *facts.claims, *facts.devices, *map(BudgetSeen, facts.budgets)]
    return [
        decide(name, setting.engine(), facts.nodes, facts.pods, facts.jobs, others, facts.taken)
        for name, setting in settings.items()
    ]


def amended(
    facts: ClusterFacts, changes: Iterable[QueueSeen], priorities: Mapping[str, int]
) -> tuple[ClusterFacts, list[str]]:
    """Replace queue objects of the same kind and name by these, and tell for each whether it is new or changed.

    ``priorities``: the values of WorkloadPriorityClasses, which jobs are read with (``read``).
    """
    queues = {key_of(queue.object): queue for queue in facts.queues if isinstance(queue, QueueSeen)}
    lines = []
    for change in changes:
        kind, namespace, name = key = key_of(change.object)
        lines.append(
            f"{TITLES.get(kind, kind)} {namespace}{'/' if namespace else ''}{name}: {_how(queues, key, change)}"
        )
        queues[key] = change
    lines += [f"WorkloadPriorityClass {name}: {_how(facts.priorities, name, priorities[name])}" for name in priorities]
    others = [queue for queue in facts.queues if not isinstance(queue, QueueSeen)]
    return replace(facts, queues=[*others, *queues.values()]), lines


def _how(known: Mapping[Any, object], key: object, value: object) -> str:
    if key not in known:
        return "new"
    return "as it is already" if known[key] == value else "changed"


async def _take(connecting: Awaitable[Kube], taken: str, reader: Reader) -> ClusterFile:
    kube = await connecting
    try:
        return await take(kube, taken, reader)
    finally:
        await kube.close()
