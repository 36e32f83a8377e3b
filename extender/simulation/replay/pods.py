"""The pods of a job as the API server would have them: an Indexed Job in the annotation dialect, gated at admission."""

from __future__ import annotations

from extender.simulation.replay.course import Life
from extender.simulation.replay.shape import GPU
from policies.model import GANG_GATE, Dialect, GroupRef, Pod, Topology

NAMESPACE = "default"


NOTHING_ASKED = Topology()


def pods_of(life: Life, topology: Topology = NOTHING_ASKED) -> list[Pod]:
    """Gated, without a node, in rank order; the same each time."""
    one = life.arrival
    ref = GroupRef(one.name, Dialect.ANNOTATION, one.needed)
    requests = ((GPU, one.gpus), ("pods", 1))
    return [
        Pod(
            f"{life.number}/{index}",
            NAMESPACE,
            f"{one.name}-{index}",
            requests,
            created=one.submit_s,
            priority=one.priority,
            gates=(GANG_GATE,),
            owner=str(life.number),
            index=index,
            topology=topology,
            group=ref,
        )
        for index in range(one.pods)
    ]
