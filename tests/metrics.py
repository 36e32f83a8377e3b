"""Every metric of Muster, with its labels: documents, alerts and dashboards are compared with them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from prometheus_client.core import Metric

from extender.core.effects import Milestone, Reached, RevokedFor
from extender.observe.metrics import Metrics
from extender.observe.utilisation import Load, Loads, Utilisation
from policies.model import GroupKey
from tests.builders import cluster, gang
from tests.core.devices import CLASS, gpus, request, template, with_template
from tests.core.script import Script

ASKED = Utilisation(on=True, loads=Loads(pods={("default", "train-0"): {"": Load(8, 4.0)}}))


@dataclass(frozen=True)
class Described:
    """A metric. ``name`` is the one that is queried, but for a histogram's suffixes."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query can use."""
        return (
            tuple(f"{self.name}_{end}" for end in ("bucket", "sum", "count"))
            if self.kind == "histogram"
            else (self.name,)
        )


def used() -> Metrics:
    """The metrics of an extender to which everything has happened once."""
    running = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("train", 2))]
    script = Script(*cluster("a: 3x8", "b: 1x8"), *running, *gang("wait", 9))
    metrics = Metrics(lambda: script.core.state, ages=lambda: {"pods": 1.0}, utilisation=lambda: (ASKED, script.now))
    for event in (CLASS, *gpus("a-2", count=2), template(request())):
        script.feed(event)  # type: ignore[arg-type]
    script.see(with_template("claims", 1))
    script.core.state.counts.blame("Emptiest")
    script.core.state.expectations.errors["team"] = deque([1.0])
    metrics.answered("filter", "ok", 0.001)
    metrics.wrote("binding", "done")
    metrics.retried("binding")
    metrics.passed(0.01)
    for milestone in Milestone:
        cause = RevokedFor.HOLD_DEADLINE if milestone is Milestone.FORGOTTEN else None
        metrics.reached(Reached(GroupKey("team", "train"), milestone, 8, 1.0, cause))
    return metrics


def described() -> dict[str, Described]:
    """The metrics by name, of an extender in which everything has happened once."""
    metrics = {}
    for family in used().families():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        metrics[name] = Described(name, family.type, _labels(family), family.documentation)
    return metrics


def _labels(family: Metric) -> tuple[str, ...]:
    named = dict.fromkeys(label for sample in family.samples for label in sample.labels)
    return tuple(label for label in named if label != "le")
