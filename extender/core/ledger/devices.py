"""The ledger of devices: what drivers publish, what claims hold, and what pods ask for, in amounts that nodes offer.

Devices become amounts (``policies.devices.lines``) that nodes offer beside cpu and memory, so that the planner, quota
and preemption need no code for devices:

1. ``note`` records an event, and returns the pods whose requests may have changed.
2. ``record`` returns a pod with the amounts that its claims ask for, limited to the nodes of claims that are allocated.
3. ``settle`` evaluates new requirements for all devices, in steps, and has nodes offer what they have. The cycle does
   that before it plans, and sees every pod of ``all_users`` again if ``restated``.

Devices of a bound pod's claims on its node are room of that pod: they come free with the pod, for preemption too.
Devices of other claims are in use. These are claims of pods that are not bound yet, and claims that several pods share.

What cannot be counted is left to kube-scheduler; ``passed_through`` names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, islice, product
from operator import or_
from typing import NamedTuple

from extender.core.causes import ResourceClaims
from extender.core.events import (
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainSeen,
    ComputeDomainsListed,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    DeviceEvent,
    SliceGone,
    SliceSeen,
    TaintRuleGone,
    TaintRuleSeen,
)
from extender.core.ledger.claims import Claim, Claims, Owner
from extender.core.ledger.domains import DAEMON_CLASS, ComputeDomains, open_to
from extender.core.ledger.offers import Offers
from extender.core.limits import Limits
from policies.devices.inventory import Inventory
from policies.devices.lines import Ask, Bundle, Line, Match, line_amounts, lines_of
from policies.devices.lines import Devices as Stock
from policies.devices.selectors import in_short
from policies.model import CLIQUE, HOSTNAME, GroupKey, Node, Pod, PodSets, Requests, Victim
from policies.model.devices import (
    DOMAIN_DRIVER,
    EXTENDED_USE,
    Allocation,
    ClaimSpec,
    ClaimTemplate,
    ClaimUse,
    ComputeDomain,
    DeviceClaim,
    DeviceKey,
    DeviceRequest,
    DeviceRequirement,
)
from policies.placement.matching import reached
from policies.placement.snapshot import Snapshot
from policies.steps import Steps, batched
from policies.words import COUNTED, LINE, WHOLE, distinct, listed, without_devices

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""The prefix of a class name in the resource by which each class can be requested."""
MOST_ASKS = 256
"""Different requests that are counted, at most."""
_NODES = 8
"""Nodes whose devices are counted in one unit of ``policies.steps``."""
_LONGEST = 100
"""Characters of a request's selectors that texts show."""

_MOST_ALTERNATIVES = 16
"""Combinations of alternatives that are tried for a claim that several pods share."""

ObjectKey = tuple[str, str]
"""Namespace and name."""
Alternatives = list[tuple[Ask, str]]
"""The alternatives of a request: what each asks for, and its text."""


class DeviceClasses:
    """The DeviceClasses as last seen: none where Muster may not read them, or the API server does not serve them."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        """The extended resource of each class; empty if it has only the implicit one."""
        self.selectors: dict[str, tuple[str, ...]] = {}

    def note(self, event: DeviceClassSeen | DeviceClassGone) -> None:
        if isinstance(event, DeviceClassSeen):
            self.seen[event.name], self.selectors[event.name] = event.resource, event.selectors
        else:
            self.seen.pop(event.name, None)
            self.selectors.pop(event.name, None)

    def offering(self, resource: str) -> str:
        """``"DeviceClass gpu.example.com"``, or several; empty if no class offers that resource."""
        classes = self.classes_of(resource)
        return f"DeviceClass{'es' * (len(classes) > 1)} {listed(classes)}" if classes else ""

    def classes_of(self, resource: str) -> list[str]:
        """The classes whose devices the resource stands for, by name."""
        if resource.startswith(IMPLICIT):
            return [name for name in (resource.removeprefix(IMPLICIT),) if name in self.seen]
        return sorted(name for name, named in self.seen.items() if resource == named)

    def listed(self, requests: Requests, view: Snapshot) -> Requests:
        """The requests that nodes have to list. Devices of DRA serve the others, which no node lists."""
        return tuple((name, much) for name, much in requests if not self._offers(name) or _is_listed(name, view))

    def _offers(self, name: str) -> bool:
        return name.startswith(COUNTED) or bool(self.seen and self.classes_of(name))


def _is_listed(resource: str, view: Snapshot) -> bool:
    line = view.resources.get(resource)
    return line is not None and bool(view.allocatable[line].any())


class _Seen(NamedTuple):
    """A pod as it was seen, and the pod with the amounts that its claims ask for. ``has``: the devices that are its
    room."""

    raw: Pod
    resolved: Pod
    has: tuple[DeviceKey, ...] = ()


class Devices:
    """The devices of the cluster, their claims, and the pods that use them."""

    def __init__(self, claims: Claims, limits: Limits) -> None:
        self._limits = limits
        self.classes = DeviceClasses()
        self.inventory = Inventory()
        self.domains = ComputeDomains()
        self.templates: dict[ObjectKey, ClaimTemplate] = {}
        self.claims: dict[ObjectKey, DeviceClaim] = {}
        self.restated = False
        """Whether requests are counted in other amounts now, so that every pod with devices has to be seen again."""
        self.offers = Offers(claims, "devices")
        self._room = claims
        self._made_for: dict[str, dict[ObjectKey, None]] = {}
        """The claims that were made for each pod, by its UID."""
        self._users: dict[str, _Seen] = {}
        """The pods that ask for devices, by UID."""
        self._using: dict[ObjectKey, dict[str, None]] = {}
        """The pods that name a claim or a template, by UID."""
        self._stale: dict[str, None] = {}
        """The pods whose requests may have changed because of other pods or devices."""
        self._held: dict[ObjectKey, Allocation] = {}
        """The allocations of claims whose devices are counted as in use.

        Devices of a pod count from when the pod is seen, as its other room does. The watch of claims may be ahead of
        that of pods, and the devices may be promised to that pod.
        """
        self._claim_with: dict[DeviceKey, ObjectKey] = {}
        """The claim that the device is allocated to."""
        self._holder: dict[DeviceKey, str] = {}
        """The bound pod that has the device, by UID."""
        self._as_room: dict[Owner, tuple[DeviceKey, ...]] = {}
        """The devices that are counted as the room of their pods."""
        self._lingering: dict[str, GroupKey | None] = {}
        """Deleted pods whose claims still have devices, by UID, with their gangs."""
        self._relieved: dict[GroupKey, None] = {}
        """The gangs of ended pods with a claim that has given its devices back."""
        self._of_domains: Counter[DeviceKey] = Counter()
        """How many allocations have each channel, and each device of a daemon."""
        self._daemon: Requests = (("pods", 1),)
        """The requests of a ComputeDomain's daemon, as of the last daemon that was seen."""
        self._asks: dict[Ask, str] = {}
        """The requests that are counted, with their texts."""
        self._resources: dict[str, Ask | None] = {}
        """The request that one unit of an extended resource stands for; None while no device serves it.

        Only resources that pods have asked for are included.
        """
        self._units: dict[str, Match] = {}
        """The requirement that only units which nodes list meet, by resource: other nodes serve it by devices."""
        self._lines: dict[Line, str] = {}
        self._bundles: dict[Bundle, str] = {}
        """The requests that are counted node by node, and the names of their amounts."""
        self._amounts: dict[Ask, Requests] = {}
        self._refused = False
        """Whether a request is not counted for lack of space, while others may not be needed any more."""
        self._based_on: tuple[object, ...] = ()

    # Events

    def note(self, event: DeviceEvent) -> list[str]:
        """Record the event. Returns the pods whose requests may have changed, by UID."""
        match event:
            case DeviceClassSeen() | DeviceClassGone():
                self.classes.note(event)
                self.restated = True
                return list(self._users)
            case SliceSeen(published):
                self.inventory.put(published)
            case SliceGone(name):
                self.inventory.drop(name)
            case TaintRuleSeen(rule):
                self.inventory.put_taint(rule)
            case TaintRuleGone(name):
                self.inventory.drop_taint(name)
            case ClaimTemplateSeen(template):
                self.templates[template.namespace, template.name] = template
                return list(self._using.get((template.namespace, template.name), ()))
            case ClaimTemplateGone(namespace, name):
                self.templates.pop((namespace, name), None)
                return list(self._using.get((namespace, name), ()))
            case DeviceClaimSeen(claim):
                return self._claim_changed((claim.namespace, claim.name), claim)
            case DeviceClaimGone(namespace, name):
                return self._claim_changed((namespace, name), None)
            case _:
                return self._note_domain(event)
        self._refresh()
        return []

    def _claim_changed(self, key: ObjectKey, claim: DeviceClaim | None) -> list[str]:
        if claim is not None and self.claims.get(key) == claim:
            return []
        before = self.claims.pop(key, None)
        if before is not None:
            self._awaits_nodes(key)
            if (made := self._made_for.get(before.owner)) is not None:
                made.pop(key, None)
                if not made:
                    del self._made_for[before.owner]
        if claim is not None:
            self.claims[key] = claim
            if claim.owner:
                self._made_for.setdefault(claim.owner, {})[key] = None
            if not claim.owner or claim.owner in self._users or claim.owner in self._lingering:
                self._hold(key)
        if before is not None and before.allocation is not None and (claim is None or claim.allocation is None):
            gang = self._gang_of_ended(before.owner)
            self._relieved |= {gang: None} if gang is not None else {}
            if not self.has_devices(before.owner):
                self._lingering.pop(before.owner, None)
        self._refresh()
        owners = {changed.owner: None for changed in (before, claim) if changed is not None}
        return list({**self._using.get(key, {}), **owners})

    def _note_domain(self, event: ComputeDomainSeen | ComputeDomainGone | ComputeDomainsListed) -> list[str]:
        match event:
            case ComputeDomainSeen(domain):
                self.domains.put(domain)
                return self._pods_of(domain)
            case ComputeDomainGone(uid):
                return [] if (gone := self.domains.drop(uid)) is None else self._pods_of(gone)
            case ComputeDomainsListed(listed):
                self.domains.note_listed(listed=listed)
                return list(self._users)

    def _pods_of(self, domain: ComputeDomain) -> list[str]:
        """The pods that name a template of the domain, by UID."""
        keys = {key: None for key, template in self.templates.items() if template.spec.domain == domain.uid}
        keys[domain.namespace, domain.template] = None
        return list(dict.fromkeys(uid for key in keys for uid in self._using.get(key, ())))

    def pods_of(self, domain: ComputeDomain) -> list[Pod]:
        """The pods that have, or are to have, a channel of the domain."""
        known = [self._users[uid].resolved for uid in self._pods_of(domain) if uid in self._users]
        return [pod for pod in known if pod.compute_domain == domain.uid]

    def may_concern_jobs(self, event: DeviceEvent) -> bool:
        """Whether the event may change the requests of pods that have yet to be created. Call it before ``note``."""
        match event:
            case SliceSeen() | SliceGone() | TaintRuleSeen() | TaintRuleGone():
                return False
            case DeviceClaimSeen(claim):
                return not claim.owner
            case DeviceClaimGone(namespace, name):
                known = self.claims.get((namespace, name))
                return known is None or not known.owner
        return True

    def _hold(self, key: ObjectKey) -> None:
        """Count the devices of the claim as in use."""
        allocation = self.claims[key].allocation
        if allocation is not None and key not in self._held:
            self._held[key] = allocation
            self.inventory.hold(allocation.devices)
            self._of_domains.update(_of_domains(allocation))
            self._claim_with |= dict.fromkeys(allocation.devices, key)

    def _awaits_nodes(self, key: ObjectKey) -> None:
        """Count the devices of the claim as free."""
        if (allocation := self._held.pop(key, None)) is not None:
            self.inventory.hold(allocation.devices, -1)
            self._of_domains.subtract(_of_domains(allocation))
            for device in allocation.devices:
                self._claim_with.pop(device, None)

    def all_users(self) -> list[str]:
        """Return every pod that asks for devices, by UID. The caller sees them all again."""
        self.restated = False
        return list(self._users)

    def node_changed(self, name: str) -> None:
        """Note a node that was added or changed."""
        if self._lines:
            self.inventory.mark_dirty(name)

    @property
    def has_news(self) -> bool:
        """Whether ``take_stale`` has something to return, or nodes offer more or less."""
        return bool(self._stale) or self.offers.changed

    def take_relieved(self) -> list[GroupKey]:
        """Return the gangs of ended pods with a claim that has given its devices back since the last call."""
        relieved, self._relieved = self._relieved, {}
        return list(relieved)

    def take_stale(self) -> list[str]:
        """Return the pods whose requests have changed since the last call. The caller sees them again."""
        stale, self._stale = self._stale, {}
        return [uid for uid in stale if (seen := self._users.get(uid)) and self._resolve(seen.raw) != seen]

    @property
    def lines(self) -> Collection[str]:
        """The names of the amounts in which devices are counted."""
        return self._lines.values()

    def allocated(self) -> set[DeviceKey]:
        """The devices that are allocated to claims."""
        return {
            key for claim in self.claims.values() if claim.allocation is not None for key in claim.allocation.devices
        }

    def counted_as_room(self, node: str) -> set[DeviceKey]:
        """The devices of the node that are the room of pods there."""
        return {key for owner, _ in self._room.on(node) for key in self._as_room.get(owner, ())}

    def counted(self) -> Iterator[tuple[str, Match, str]]:
        """Yield each kind of device that is counted: its text, the requirements, and the name of the amount.

        A device of the kind matches one of the requirements. Nodes offer such devices in that amount.
        """
        for match, name in {ask.match: name for ask, name in self._asks.items()}.items():
            around = [line for line in self._lines if line.counts and not match & ~line.match]
            if around:
                yield name, match, self._lines[min(around, key=lambda line: line.match.bit_count())]

    # Pods

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod asks for devices, as far as is known, or has asked for some."""
        if pod.device_claims or pod.uid in self._users or pod.uid in self._made_for:
            return True
        classes = self.classes
        return bool(classes.seen) and any("/" in name and classes.classes_of(name) for name, _ in pod.requests)

    def record(self, pod: Pod) -> Pod:
        """Record a pod that asks for devices. Returns it with the amounts that it asks for."""
        known = self._users.get(pod.uid)
        self._note_daemon(pod)
        for key in _named(pod):
            if pod.uid not in (users := self._using.setdefault(key, {})):
                self._stale |= users
                users[pod.uid] = None
        seen = self._resolve(pod if known is None else _unresolved(pod, known))
        self._put(pod.uid, seen)
        for key in self._made_for.get(pod.uid, ()) if known is None else ():
            self._hold(key)
        self._refresh()
        if (room := self._room.get(pod.uid)) is not None:
            self._count_as_room(pod.uid, room)
        return seen.resolved

    def _put(self, uid: str, seen: _Seen | None) -> None:
        if (before := self._users.pop(uid, None)) is not None:
            for key in before.has:
                if self._holder.get(key) == uid:
                    del self._holder[key]
        if seen is not None:
            self._users[uid] = seen
            self._holder |= dict.fromkeys(seen.has, uid)

    def _resolve(self, pod: Pod) -> _Seen:
        """Compute what the pod asks for; if it is bound, including the devices of its claims on its node."""
        has, resolved = tuple(self._held_alone(pod)) if pod.node else (), self.resolved(pod)
        if has:
            total = Counter(dict(resolved.requests))
            for line, name in self._lines.items():
                if much := line.held(self.inventory.known[key] for key in has):
                    total[name] += much
            resolved = replace(resolved, requests=tuple(sorted(total.items())))
        return _Seen(pod, resolved, has)

    def _held_alone(self, pod: Pod) -> Iterator[DeviceKey]:
        """Yield the devices on the pod's node that it has in claims which no other pod names."""
        named = [self.claims.get((pod.namespace, use.claim)) for use in pod.device_claims if use.claim]
        alone = [
            claim
            for claim in named
            if claim is not None and len(self._using.get((claim.namespace, claim.name), ())) == 1
        ]
        for claim in (*alone, *map(self.claims.__getitem__, self._made_for.get(pod.uid, ()))):
            for key in claim.allocation.devices if claim.allocation is not None else ():
                if (known := self.inventory.known.get(key)) is not None and known.reach.node == pod.node:
                    yield key

    def claims_of(self, pod: Pod) -> Iterator[ObjectKey]:
        """The claims that the pod names, then the claims that were made for it."""
        yield from ((pod.namespace, use.claim) for use in pod.device_claims if use.claim)
        yield from self._made_for.get(pod.uid, ())

    def users_of(self, key: ObjectKey) -> list[str]:
        """The pods of the claim, by UID: the pod that it was made for, or all pods that name it."""
        owner = self.claims[key].owner
        return [owner] if owner else list(self._using.get(key, ()))

    def _count_as_room(self, owner: Owner, room: Claim | None) -> None:
        """Count the devices of a pod as its room if its claim of room includes them; else as in use by others."""
        seen = self._users.get(owner) if isinstance(owner, str) else None
        fits = seen is not None and room is not None and room.requests == seen.resolved.requests
        before, now = self._as_room.pop(owner, ()), seen.has if seen is not None and fits else ()
        if now:
            self._as_room[owner] = now
        if now != before:
            for node in self.inventory.count_as_room(before, now):
                self._offer((node,), same_room=True)

    def _note_daemon(self, pod: Pod) -> None:
        """Remember the requests of a domain's daemon: nodes keep room for one."""
        specs = [self._found(pod, use)[0] for use in pod.device_claims]
        requests = tuple(request for request in pod.requests if "/" not in request[0])
        if requests != self._daemon and any(spec is not None and spec.daemon for spec in specs):
            self._daemon = requests
            self.inventory.mark_all_dirty()

    def drop(self, pod: Pod) -> None:
        """Forget a pod that is gone."""
        if pod.uid not in self._users:
            return
        self._put(pod.uid, None)
        if self.has_devices(pod.uid):
            self._lingering[pod.uid] = pod.group_key
        for key in _named(pod):
            if (users := self._using.get(key)) is not None:
                users.pop(pod.uid, None)
                self._stale |= users
                if not users:
                    del self._using[key]

    def without_counted(self, requests: Requests) -> Requests:
        """The requests without what devices serve: amounts of claims, and extended resources of classes."""
        return tuple((name, much) for name, much in without_devices(requests) if self._resources.get(name) is None)

    def linger(self, victim: Victim) -> bool:
        """Whether pods of the victim are gone but still have devices: Kubernetes deletes their claims after them."""
        return victim.pod in self._lingering or (not victim.pod and victim.key in self._lingering.values())

    def are_coming_back(self, node: str, gang: GroupKey) -> bool:
        """Whether ended pods of the gang still have devices of the node: Kubernetes deletes their claims soon."""
        holders = (self._claim_with.get(key) for key in self.inventory.on_node(node))
        owners = (self.claims[key].owner for key in holders if key is not None)
        return any(self._gang_of_ended(uid) == gang for uid in owners)

    def _gang_of_ended(self, uid: str) -> GroupKey | None:
        """The gang of a pod that has ended or is ending, and whose claims may have devices; None for other pods."""
        seen = self._users.get(uid)
        if seen is not None and not seen.raw.live:
            return seen.raw.group_key
        return self._lingering.get(uid)

    def has_devices(self, uid: str) -> bool:
        """Whether a claim that was made for that pod is allocated."""
        return any(self.claims[key].allocation is not None for key in self._made_for.get(uid, ()))

    def resolved(self, pod: Pod) -> Pod:
        """Return the pod with the amounts that its claims and resources ask for, limited to the nodes of its
        allocations.

        Pods that share a claim go to one node, if any device for it belongs to one node. An allocated claim asks for
        nothing.
        """
        total = Counter(dict(without_devices(pod.requests)))
        extended = self._made(pod, EXTENDED_USE)
        allocations = [None if extended is None else extended.allocation]
        by_class = self._by_class(pod)
        self._ask_by_resources(pod, total, by_class, given=allocations[0] is not None)
        topology = pod.topology
        domain = self._domain_of(pod)
        if domain and topology.required is None and self._limits.clique_of_domains:
            topology = topology._replace(required=CLIQUE)
        for use in pod.device_claims:
            spec, allocation = self._found(pod, use)
            allocations.append(allocation)
            if spec is None or allocation is not None:
                continue
            requests, _ = self._counted(spec)
            self._asks |= {
                ask.kind: name for request in requests for ask, name in request if ask.kind not in self._asks
            }
            if use.claim and any(
                self.inventory.belongs_to_one_node(ask.match) for alternatives in requests for ask, _ in alternatives
            ):
                topology = topology._replace(required=HOSTNAME, slice_size=None)
            total.update(self._amounts_of(requests, (pod.namespace, use.claim) if use.claim else None))
        selection = pod.selection
        places = {
            allocation.nodes for allocation in allocations if allocation is not None and allocation.nodes is not None
        }
        if domain and DAEMON_CLASS in self.classes.seen:
            places.add(open_to(domain))
        if selection.devices != (sorted_places := tuple(sorted(places))):
            selection = replace(selection, devices=sorted_places)
        return replace(
            pod,
            requests=tuple(sorted(total.items())),
            selection=selection,
            topology=topology,
            compute_domain=domain,
            by_class=tuple(sorted(by_class.items())),
        )

    def _domain_of(self, pod: Pod) -> str:
        """The UID of the ComputeDomain whose channel a claim of the pod is for; empty for none."""
        specs = (self._found(pod, use)[0] for use in pod.device_claims)
        return next((spec.domain for spec in specs if spec is not None and spec.domain and not spec.daemon), "")

    def _by_class(self, pod: Pod) -> Counter[str]:
        """The pod's claimed devices for quota, by each name under which a queue may count a class.

        These are the class, the extended resource that it offers, and the implicit resource.

        Of several alternatives the largest counts, and all devices of a node count as one. A shared claim counts for
        its first pod. Admin access does not count.
        """
        total = Counter[str]()
        for use in pod.device_claims:
            users = self._using.get((pod.namespace, use.claim), ()) if use.claim else ()
            spec, _ = self._found(pod, use)
            if spec is None or (use.claim and next(iter(users), "") != pod.uid):
                continue
            for request in spec.requests:
                most = Counter[str]()
                for alternative in request.alternatives:
                    names = (
                        alternative.device_class,
                        f"{IMPLICIT}{alternative.device_class}",
                        self.classes.seen.get(alternative.device_class),
                    )
                    most |= {name: alternative.count or 1 for name in names if name and not alternative.admin}
                total.update(most)
        return total

    def _amounts_of(self, requests: Sequence[Alternatives], shared: ObjectKey | None) -> Counter[str]:
        """Return the amounts that the requests of a claim ask for. ``shared``: the claim, if other pods may name it."""
        total = Counter[str]()
        for alternatives in requests if shared is None else ():
            if len(alternatives) == 1:
                total.update(dict(self._of(alternatives[0][0])))
        for bundle, name in _bundles_of(requests, shared):
            total.update(dict(self._bundle(bundle, name)))
        return total

    def _bundle(self, bundle: Bundle, text: str) -> Requests:
        """Return the amount that asks for the bundle once, or nothing if there are too many. Nodes offer a new one when
        counted next."""
        if (name := self._bundles.get(bundle)) is None:
            if len(self._bundles) >= MOST_ASKS:
                self._refused = True
                return ()
            name = self._bundles[bundle] = distinct(f"{LINE}{text}", self._bundles.values())
            self.inventory.mark_all_dirty()
        return ((name, 1),)

    def _ask_by_resources(self, pod: Pod, total: Counter[str], by_class: Counter[str], *, given: bool) -> None:
        """Add the devices that the pod's extended resources stand for. ``given``: whether kube-scheduler has allocated
        them."""
        for name, much in pod.requests:
            if "/" in name and name not in self._resources and self.classes.classes_of(name):
                self._resources[name] = None
                self.restated = True
            if (ask := self._resources.get(name)) is None or not much:
                continue
            if not given:
                total.update(dict(self._of(replace(ask, count=much))))
            elif not pod.node:
                # The node does not offer allocated devices as the resource, but quota counts them.
                del total[name]
                by_class[name] += much

    def resolved_all(self, podsets: PodSets) -> PodSets:
        """Return the templates of a job with the amounts that they ask for."""
        if not any(self.concerns(pod) for podset in podsets.podsets for pod in podset.templates):
            return podsets
        return PodSets(podsets.key, tuple(podset.mapped(self.resolved) for podset in podsets.podsets))

    def missing(self, pod: Pod) -> ResourceClaims | None:
        """Name an object that has to exist before the pod can be planned; None if all exist.

        Without any class nothing can be claimed, and claims and templates are not read.
        """
        if pod.device_claims and not self.classes.seen:
            return ResourceClaims("DeviceClass", "", pod.name)
        for use in pod.device_claims:
            spec, _ = self._found(pod, use)
            if spec is None and use.claim:
                return ResourceClaims("ResourceClaim", use.claim, pod.name)
            if spec is None:
                return self.domains.without_template(pod.namespace, use.template, pod.name)
            if spec.domain and not spec.daemon:
                named_by = f"ResourceClaim {use.claim}" if use.claim else f"ResourceClaimTemplate {use.template}"
                if (none := self.domains.missing(spec.domain, pod.namespace, named_by, pod.name)) is not None:
                    return none
            for request in spec.requests:
                for name in dict.fromkeys(
                    alternative.device_class for alternative in request.alternatives if alternative.device_class
                ):
                    if name not in self.classes.seen:
                        return ResourceClaims("DeviceClass", name, pod.name)
        return None

    def passed_through(self, pod: Pod) -> list[str]:
        """Return texts for the parts of the pod's claims that are left to kube-scheduler."""
        left: dict[str, None] = {}
        for use in pod.device_claims:
            spec, allocation = self._found(pod, use)
            if spec is not None and allocation is None:
                requests, rest = self._counted(spec)
                left |= dict.fromkeys(rest)
                if any(
                    self.inventory.has_partitions(ask.match) for alternatives in requests for ask, _ in alternatives
                ):
                    left[_PARTITIONS] = None
        return list(left)

    def failures(self, pod: Pod) -> list[str]:
        """The selectors that fail on a device, with the error: kube-scheduler gives up there."""
        failed: dict[str, None] = {}
        for use in pod.device_claims:
            spec, _ = self._found(pod, use)
            for request in spec.requests if spec is not None else ():
                for alternative in request.alternatives:
                    rule = self.inventory.rule_of(self._requirement(alternative))
                    if rule is not None and rule.failed is not None:
                        error, device = rule.failed
                        name = alternative.device_class
                        failed[f"a selector of {name} fails on device {device.device}: {error}"] = None
        return list(failed)

    def remarks(self, pod: Pod) -> str:
        """Return a remark on the pod's claims for the reason that it has no room; empty for most pods."""
        left = f"; left to kube-scheduler: {listed(uncounted)}" if (uncounted := self.passed_through(pod)) else ""
        return left + "".join(f"; {failure}" for failure in self.failures(pod))

    def _found(self, pod: Pod, use: ClaimUse) -> tuple[ClaimSpec | None, Allocation | None]:
        """Return the spec and the allocation of a claim of the pod; None for what is not known."""
        claim = self.claims.get((pod.namespace, use.claim)) if use.claim else self._made(pod, use.name)
        if claim is not None:
            return claim.spec, claim.allocation
        template = self.templates.get((pod.namespace, use.template)) if use.template else None
        return (template.spec, None) if template is not None else (None, None)

    def _made(self, pod: Pod, use: str) -> DeviceClaim | None:
        """The claim that was made for that use of the pod."""
        made = [self.claims[key] for key in self._made_for.get(pod.uid, ())]
        return next((claim for claim in reversed(made) if claim.use == use), None)

    # Requests

    def _counted(self, spec: ClaimSpec) -> tuple[list[Alternatives], list[str]]:
        """Return the requests of a claim that are counted, and texts for the parts that are not."""
        counted, rest = list[Alternatives](), list(spec.constraints)
        for request in spec.requests:
            alternatives = request.alternatives
            alike = len({(alternative.count, alternative.admin) for alternative in alternatives}) == 1
            groups = [alternatives] if alike else [(alternative,) for alternative in alternatives]
            matches = [(group, *self._match(group)) for group in groups]
            asks = [
                (Ask(match, group[0].count, group[0].admin), " or ".join(dict.fromkeys(map(_name_of, group))))
                for group, match, _ in matches
            ]
            uncounted = next((why for *_, why in matches if why), "")
            if not uncounted and len(self._asks) >= MOST_ASKS and any(ask.kind not in self._asks for ask, _ in asks):
                uncounted = _TOO_MANY
            if uncounted:
                self._refused |= uncounted == _TOO_MANY
                rest.append(f"{uncounted} (request {request.name})")
            else:
                counted.append(asks)
        return counted, rest

    def _match(self, alternatives: Sequence[DeviceRequest]) -> tuple[int, str]:
        """The requirements, any of which suffices, as bits; or 0 and why they cannot be counted."""
        match = 0
        for alternative in alternatives:
            if alternative.uncounted:
                return 0, alternative.uncounted
            number = self._require(self._requirement(alternative))
            if number is None:
                return 0, _TOO_MANY
            if unread := self.inventory.rules[number].unread:
                return 0, f"a selector with {unread}"
            match |= 1 << number
        return match, ""

    def _require(self, requirement: DeviceRequirement) -> int | None:
        in_use = 0
        for ask in self._asks if self.inventory.is_full else ():
            in_use |= ask.match
        return self.inventory.require(requirement, in_use)

    def _requirement(self, request: DeviceRequest) -> DeviceRequirement:
        selectors = self.classes.selectors.get(request.device_class, _NOTHING)
        return DeviceRequirement(request.device_class, (*selectors, *request.selectors), request.tolerations)

    def _of(self, ask: Ask) -> Requests:
        """The amounts that the request asks for."""
        kind = ask.kind
        if (known := self._amounts.get(kind)) is None:
            known = self._amounts[kind] = line_amounts(kind, self._lines, self._there())
        return known if kind == ask else tuple((name, much * (ask.count or 0)) for name, much in known)

    def _there(self) -> list[Match]:
        """Return each set of requirements that devices of the cluster, or units that nodes list, match, once."""
        return sorted({*self.inventory.seen(), *self._units.values()})

    def _review_resources(self) -> None:
        """Compute what extended resources stand for, where classes offer them and not all nodes list them.

        kube-scheduler takes devices on a node that does not list the resource, and else what the node lists. So a unit
        that a node lists counts as a device that serves requests for the resource alone.
        """
        by_nodes = {name for node in self._room.nodes.values() for name, much in node.allocatable if much}
        before, self._resources, self._units = self._resources, {}, {}
        for name in before:
            classes = [DeviceRequest(device_class) for device_class in self.classes.classes_of(name)]
            match, _ = self._match(classes)
            if name in by_nodes:
                served = any(seen & match for seen in self.inventory.seen())
                unit = self._require(DeviceRequirement(name, _NOTHING)) if served else None
                self._units |= {} if unit is None else {name: 1 << unit}
                match = 0 if unit is None else match | 1 << unit
            self._resources[name] = Ask(match) if match else None
            if match:
                text = name if name in by_nodes else listed(request.device_class for request in classes)
                self._asks.setdefault(Ask(match), text)
        if before != self._resources:
            # Nodes offer the resource itself, too, even if its devices are counted already.
            self.restated = True
            self.inventory.mark_all_dirty()

    @property
    def has_refused(self) -> bool:
        """Whether a request is not counted until others are forgotten."""
        return self._refused

    def forget_unasked(self, pods: Iterable[Pod]) -> None:
        """Make space for other requests, if at most half of them are needed. ``pods``: all pods.

        While more are needed nothing is forgotten: each time ends a cycle, and no cycle would complete.
        """
        asks: dict[Ask, None] = {ask.kind: None for ask in self._resources.values() if ask is not None}
        bundles: dict[Bundle, None] = {}
        for pod in pods:
            for use in pod.device_claims:
                spec, allocation = self._found(pod, use)
                if spec is not None and allocation is None:
                    requests, _ = self._counted(spec)
                    shared = (pod.namespace, use.claim) if use.claim else None
                    asks |= {ask.kind: None for alternatives in requests for ask, _ in alternatives}
                    bundles |= {bundle: None for bundle, _ in _bundles_of(requests, shared)}
        rules = reduce(or_, (ask.match for ask in asks), 0).bit_count()
        if max(len(asks), len(bundles), rules) <= MOST_ASKS // 2:
            self._asks = {ask: name for ask, name in self._asks.items() if ask in asks}
            self._bundles = {bundle: name for bundle, name in self._bundles.items() if bundle in bundles}
            self.restated = True
            self.inventory.mark_all_dirty()
        self._refused = False

    def _renew(self) -> None:
        """Make the lines again if the requests or the devices that were seen have changed."""
        based_on = (tuple(self._asks), tuple(self._there()))
        if self._based_on == based_on:
            return
        before, self._amounts, self._based_on = self._amounts, {}, based_on
        lines, self._lines = self._lines, _named_lines(self._asks, self._there())
        self.inventory.mark_all_dirty()
        self.restated |= any(self._of(ask) != amounts for ask, amounts in before.items())
        self.restated |= any(ask not in before for ask in self._asks)
        self.restated |= bool(self._holder) and lines != self._lines

    # Nodes

    @property
    def settled(self) -> bool:
        """Whether every requirement is evaluated, nodes offer what they have, and pods ask for the amounts of now."""
        inventory = self.inventory
        quiet = inventory.settled and not inventory.is_dirty
        quiet = quiet and not self.restated and not self._refused
        asked = self._asks or self._resources
        return quiet and (not asked or self._based_on == (tuple(self._asks), tuple(self._there())))

    def settle(self) -> Steps[None]:
        """Evaluate new requirements, and have every node offer what it has, in steps."""
        while True:
            if self._resources:
                self._review_resources()  # again after each evaluation: devices may serve what nodes list
                yield 1 + len(self._room.nodes) // _NODES
            if self.inventory.settled:
                break
            yield from self.inventory.settle()
        self._renew()
        dirty = self.inventory.take_dirty()
        for nodes in batched(tuple(self._room.nodes if self.inventory.take_all_dirty() else dirty)):
            self._offer(nodes)
            yield 1 + len(nodes) // _NODES

    def _refresh(self) -> None:
        """Have the nodes of changed devices offer what they have now."""
        for key in self.inventory.take_changed():
            if (claim := self._claim_with.get(key)) is not None:
                self._stale |= dict.fromkeys(self.users_of(claim))
        dirty = self.inventory.take_dirty()
        if self._lines:
            self._offer(dirty)
        else:
            self.inventory.take_all_dirty()

    def _offer(self, nodes: Iterable[str], *, same_room: bool = False) -> None:
        """Set what these nodes offer. ``same_room``: devices became the room of a pod or ceased to be, so free amounts
        stay."""
        for name in nodes:
            if (node := self._room.nodes.get(name)) is not None:
                self.offers.put(name, self._offered(node), same_room=same_room)

    def counted_anew(self, node: str) -> dict[str, int]:
        """Count again what the node offers of devices, to check the incremental count. Returns that count until all is
        counted."""
        known = self._room.nodes.get(node) if self.settled else None
        return dict(self.offers.of(node) if known is None else self._offered(known))

    def _offered(self, node: Node) -> Requests:
        """Count what a node offers. Allocated devices are in use, unless they are counted as the room of their pods."""
        shared = (devices for terms, devices in self.inventory.shared.items() if reached(node, terms))
        lists = {name: much for name, much in node.allocatable if much} if self._units else {}
        devices = (
            *self.inventory.on(
                chain(self.inventory.on_node(node.name).values(), *(there.values() for there in shared))
            ),
            *(Stock(unit, lists[name], lists[name]) for name, unit in self._units.items() if name in lists),
        )
        if not devices:
            return ()
        offered = {name: line.offered(devices) for line, name in self._lines.items()}
        if self._bundles:
            offered = self._with_bundles(node.name, offered)
        for name, ask in self._resources.items():
            if ask is not None and name not in lists:
                offered[name] = min((offered[line] for line, _ in self._of(ask)), default=0)
        offered |= {name: -much for name, much in self._left_for_daemon(node.name)}
        return tuple((name, much) for name, much in offered.items() if much)

    def _left_for_daemon(self, node: str) -> Requests:
        """The room that a ComputeDomain's daemon needs on the node, if none runs there: it starts after the pods of its
        domain."""
        if DAEMON_CLASS in self.classes.seen:
            for key, known in self.inventory.on_node(node).items():
                is_daemon = key.driver == DOMAIN_DRIVER and known.device.facts.get(_KIND_OF) == "daemon"
                if is_daemon and not self._of_domains[key]:
                    return self._daemon
        return ()

    def _with_bundles(self, node: str, offered: dict[str, int]) -> dict[str, int]:
        """Subtract from ``offered`` what bundles with room on the node take, and add how many bundles fit there.

        Bundles with room count as fitting. A gang whose members ask for bundles and for other devices of one node may
        be promised too much: kube-scheduler refuses the last of them.
        """
        taken = Counter[str]()
        for _, claim in self._room.on(node):
            taken.update({name: much for name, much in claim.requests if name.startswith(LINE)})
        free = Counter({name: much - taken[name] for name, much in offered.items()})
        beside = dict(offered)
        for bundle, name in self._bundles.items():
            for _ in range(min(1, taken[name]) if bundle.claim else taken[name]):
                for line, much in self._take_first(bundle, free).items():
                    beside[line] -= much
        for bundle, name in self._bundles.items():
            left, more = free.copy(), 0
            while self._take_first(bundle, left) and more < (1 if bundle.claim else WHOLE):
                more += 1
            beside[name] = (more or bool(taken[name])) * WHOLE if bundle.claim else taken[name] + more
        return beside

    def _take_first(self, bundle: Bundle, free: Counter[str]) -> Counter[str]:
        """Take what the first alternative that fits asks for. Returns the amounts; nothing if none fits."""
        for asks in bundle.alternatives:
            total = Counter[str]()
            for ask in asks:
                total.update(dict(self._of(ask)))
            if total and all(free[line] >= much for line, much in total.items()):
                free.subtract(total)
                return total
        return Counter()

    def moved(self, owner: Owner, room: Claim, made: bool) -> None:
        """Follow a claim of room that was made or has ended."""
        if owner in self._users or owner in self._as_room:
            self._count_as_room(owner, room if made else None)
        if self._bundles and any(name.startswith(LINE) for name, _ in room.requests):
            self._offer((room.node,))


_KIND_OF = "attributes", DOMAIN_DRIVER, "type"
_TOO_MANY = "one of too many different requests"
_PARTITIONS = "which partitions of a device exclude each other"
_NOTHING = ("false",)
"""The selectors of a class that does not exist."""


def plain(pod: Pod | None) -> Pod | None:
    """The pod without its amounts and nodes of devices: pods that differ only in those become equal."""
    if pod is None:
        return None
    requests = without_devices(pod.requests)
    return replace(pod, requests=requests, by_class=(), selection=replace(pod.selection, devices=()))


def _unresolved(pod: Pod, known: _Seen) -> Pod:
    """The pod without the amounts that ``record`` added: the core changes facts of the pod that ``record`` returned."""
    if (pod.requests, pod.topology) != (known.resolved.requests, known.resolved.topology):
        return pod
    return replace(pod, requests=known.raw.requests, topology=known.raw.topology)


def _bundles_of(requests: Sequence[Alternatives], shared: ObjectKey | None) -> Iterator[tuple[Bundle, str]]:
    """Yield the bundles of a claim, which no line counts, with their texts."""
    if shared is not None and requests:
        together = tuple(
            islice(product(*([ask for ask, _ in alternatives] for alternatives in requests)), _MOST_ALTERNATIVES)
        )
        yield Bundle(together, "/".join(shared)), f"claim {shared[1]}"
    for alternatives in requests if shared is None else ():
        if len(alternatives) > 1:
            name = " or ".join(f"{'all' if ask.count is None else ask.count} of {of}" for ask, of in alternatives)
            yield Bundle(tuple((ask,) for ask, _ in alternatives)), name


def _of_domains(allocation: Allocation) -> Counter[DeviceKey]:
    """The channels and daemon devices of the allocation."""
    return Counter(device for device in allocation.devices if device.driver == DOMAIN_DRIVER)


def _named(pod: Pod) -> list[ObjectKey]:
    return [(pod.namespace, use.claim or use.template) for use in pod.device_claims]


def _name_of(request: DeviceRequest) -> str:
    """The text of a request: ``"gpu.nvidia.com"``, or that with its selectors."""
    selectors = " && ".join(map(in_short, request.selectors))
    return f"{request.device_class} with {_cut(selectors)}" if selectors else request.device_class


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _named_lines(asks: Mapping[Ask, str], seen: Sequence[int]) -> dict[Line, str]:
    """Name the amount of each line. All names differ."""
    names: dict[Line, str] = {}
    for line in lines_of(asks, seen):
        parts = {name: ask.match for ask, name in asks.items() if not ask.match & ~line.match}
        exact = [name for name, match in parts.items() if all(bits & match for bits in seen if bits & line.match)]
        kind = "all of " if line.whole else f"{line.least} of " if line.least else ""
        text = f"{LINE}{kind}{_cut(min(exact, key=len) if exact else ' or '.join(parts))}"
        names[line] = distinct(text, names.values())
    return names
