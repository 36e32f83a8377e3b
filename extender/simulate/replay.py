"""Muster itself on a trace: the unchanged core, fed with the jobs' pods as they come and go, fast.

``carrier.py`` says what is collapsed compared with the full model of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extender.core.scheduler import Scheduler
from extender.simulate.carrier import Carrier
from extender.simulate.course import Course, Life
from extender.simulate.pods import NOTHING_ASKED, pods_of
from policies.model import Node, Pod, Topology


class Muster:
    """Decides as the extender does. A job's pods are one gang, gated at admission; ended pods are removed at once.

    ``topology`` is what every job asks of the levels.
    """

    def __init__(
        self, course: Course, nodes: Sequence[Node], core: Scheduler, topology: Topology = NOTHING_ASKED
    ) -> None:
        self._course = course
        self._topology = topology
        self._lives: dict[str, Life] = {}
        self._carrier = Carrier(core, course.clock, self._bound)
        self._carrier.begin(nodes)

    def submitted(self, life: Life) -> None:
        for pod in pods_of(life, self._topology):
            self._lives[pod.uid] = life
            self._carrier.see(pod)

    def ended(self, life: Life) -> None:
        # All have ended before the first is removed: none of them is a member that was lost.
        uids = [pod.uid for pod in pods_of(life)]
        for uid in uids:
            self._carrier.see(replace(self._carrier.pods[uid], phase="Succeeded"))
        for uid in uids:
            self._carrier.gone(uid)
            del self._lives[uid]

    def _bound(self, pod: Pod) -> None:
        self._course.seat(self._lives[pod.uid], pod.node or "")
