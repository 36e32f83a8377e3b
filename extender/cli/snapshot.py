"""`muster snapshot` and `muster simulate --snapshot`: a cluster into a file, and what Muster would do with it."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from extender.cli.output import Output
from extender.config.settings import Settings
from extender.core.engine import Engine
from extender.kube.client import Kube
from extender.kube.pseudonyms import anonymise
from extender.kube.snapshot import ClusterFacts, ClusterFile, SnapshotError, decode, encode, take
from extender.simulation.replay.whatif import Verdict, decide
from policies.words import many


def capture(path: Path, kubeconfig: Path | None, settings: Settings, *, anonymous: bool) -> str:
    """Write the snapshot; returns a sentence on what is in it. Raises SnapshotError, OutputError."""
    output = Output(path)
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    file = asyncio.run(_take(kubeconfig or settings.kubeconfig, taken))
    counts = ((len(file.nodes), "node"), (len(file.pods), "pod"), (len(file.pod_groups), "PodGroup"))
    told = ", ".join(many(count, thing) for count, thing in counts)
    if anonymous:
        anonymise(file, [level.key for level in settings.levels])
        told += ", without their names"
    output.write(encode(file))
    return f"{path}: {told}"


def read(path: Path) -> ClusterFacts:
    """Raises SnapshotError."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def verdicts(facts: ClusterFacts, settings: Mapping[str, Settings]) -> list[Verdict]:
    """One for each set of settings."""
    return [
        decide(name, _core(one), facts.nodes, facts.pods, facts.groups, facts.claims) for name, one in settings.items()
    ]


def as_values(found: list[Verdict]) -> dict[str, object]:
    """For programs."""
    return {"verdicts": [asdict(one) for one in found]}


def _core(one: Settings) -> Engine:
    return Engine(one.scheduler_names, one.limits, one.policies, one.steering, one.levels)


async def _take(kubeconfig: Path | None, taken: str) -> ClusterFile:
    try:
        kube = await Kube.connect(kubeconfig)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"no credentials for the API server: {error}") from None
    try:
        return await take(kube, taken)
    finally:
        await kube.close()
