"""Volumes of pods: which claims have one, and which nodes reach it.

The node affinity of the volumes that a pod mounts becomes part of what the pod demands of a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.core.causes import VolumeNotBound
from extender.core.events import ClaimGone, ClaimSeen, VolumeGone, VolumeSeen
from policies.model import Pod, PodSets, Terms

ClaimKey = tuple[str, str]
"""Namespace and name of a volume claim."""


class Volumes:
    """A claim that is bound to a volume with node affinity lets its pods run on those nodes alone."""

    def __init__(self) -> None:
        self.bound: dict[ClaimKey, bool] = {}
        self.places: dict[ClaimKey, VolumeSeen] = {}
        """Those with node affinity, by the claim that they are bound to."""
        self.users: dict[ClaimKey, dict[str, None]] = {}
        """The pods that mount each claim, by UID."""

    def note(self, event: ClaimSeen | ClaimGone | VolumeSeen | VolumeGone) -> ClaimKey | None:
        """Returns the claim of which something is different now."""
        match event:
            case ClaimSeen(namespace, name, bound):
                claim, changed = (namespace, name), self.bound.get((namespace, name)) != bound
                self.bound[claim] = bound
            case ClaimGone(namespace, name):
                claim = namespace, name
                changed = self.bound.pop(claim, None) is not None
            case VolumeSeen(_, namespace, name):
                claim, changed = (namespace, name), self.places.get((namespace, name)) != event
                self.places[claim] = event
            case VolumeGone(volume, namespace, name):
                claim = namespace, name
                known = self.places.get(claim)
                # The claim may have another volume by now.
                if changed := known is not None and known.name == volume:
                    del self.places[claim]
        return claim if changed else None

    def lacking(self, pod: Pod) -> VolumeNotBound | None:
        """The first of its claims that has no volume; None if all have one."""
        for name in pod.claims:
            bound = self.bound.get((pod.namespace, name))
            if not bound:
                return VolumeNotBound(name, pod.name, exists=bound is not None)
        return None

    def mount(self, pod: Pod) -> Pod:
        """A pod that mounts claims is there: the same, held to the nodes that reach its volumes."""
        for name in pod.claims:
            self.users.setdefault((pod.namespace, name), {})[pod.uid] = None
        return self.confined(pod)

    def unmount(self, pod: Pod) -> None:
        for claim in ((pod.namespace, name) for name in pod.claims):
            if (users := self.users.get(claim)) is not None:
                users.pop(pod.uid, None)
                if not users:
                    del self.users[claim]

    def confined(self, pod: Pod) -> Pod:
        """Held to the nodes that reach its volumes, as far as they are known."""
        claims = ((pod.namespace, name) for name in pod.claims)
        nodes = {volume.nodes: None for claim in claims if (volume := self.places.get(claim)) is not None}
        return _held_to(pod, tuple(sorted(nodes)))

    def confined_all(self, podsets: PodSets) -> PodSets:
        """The templates of a job, in the same way."""
        if not any(one.template.claims for one in podsets.podsets):
            return podsets
        return _with_templates(podsets, map(self.confined, (one.template for one in podsets.podsets)))


def anywhere(pod: Pod | None) -> Pod | None:
    """Whatever its volumes are."""
    return None if pod is None else _held_to(pod, ())


def _held_to(pod: Pod, volumes: tuple[Terms, ...]) -> Pod:
    same = pod.selection.volumes == volumes
    return pod if same else replace(pod, selection=replace(pod.selection, volumes=volumes))


def _with_templates(podsets: PodSets, templates: Iterable[Pod]) -> PodSets:
    pairs = zip(podsets.podsets, templates, strict=True)
    return PodSets(podsets.key, tuple(replace(one, template=template) for one, template in pairs))
