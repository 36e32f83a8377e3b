"""Check devices (DRA): silent drivers, allocations that no pod uses, and labels of ComputeDomains that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import dumps

from extender.cli.doctor.facts import Facts
from extender.cli.doctor.finding import Finding, warning
from policies.model.devices import DOMAIN_LABEL
from policies.words import listed, many

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")


def check(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for all that keeps devices from pods that request them."""
    yield from _silent_drivers(facts)
    yield from _stale_labels(facts)
    yield from _leaked(facts)


def _silent_drivers(facts: Facts) -> Iterator[Finding]:
    """Find drivers that a DeviceClass names, and that have published nothing."""
    if facts.drivers is None:
        return
    classes: dict[str, list[str]] = {}
    for name, selectors in facts.devices.selectors.items():
        for driver in dict.fromkeys(driver for text in selectors for driver in _DRIVER.findall(text)):
            classes.setdefault(driver, []).append(name)
    for driver, names in sorted(classes.items()):
        if driver not in facts.drivers:
            what = f"it has published no ResourceSlice: pods that ask for {listed(sorted(names))} wait"
            fix = "look at the driver's pods on the nodes, and at kubectl get resourceslices"
            yield warning("DriverWithoutSlices", driver, what, fix)


def _stale_labels(facts: Facts) -> Iterator[Finding]:
    """Find nodes with the label of a ComputeDomain that is gone: pods of other domains cannot use them."""
    if facts.domains is None:
        return
    known = {domain.uid for domain in facts.domains}
    for node in facts.nodes or ():
        uid = node.labels.get(DOMAIN_LABEL)
        if uid and uid not in known:
            what = f"it is labelled for ComputeDomain {uid}, which is gone: no pod of another domain goes there"
            yield warning("StaleDomainLabel", node.name, what, f"kubectl label node {node.name} {DOMAIN_LABEL}-")


def _leaked(facts: Facts) -> Iterator[Finding]:
    """Find allocations for which no present pod is reserved: nothing else can use their devices."""
    if facts.members is None:
        return
    there = {member.pod.uid for member in facts.members if not member.pod.terminal}
    for claim in facts.claims or ():
        if claim.allocation is None or any(uid in there for uid in claim.reserved_for):
            continue
        held = many(len(claim.allocation.devices), "device")
        why = "that pods have reserved which are gone" if claim.reserved_for else "that no pod has reserved"
        what = f"it has {held} {why}: no other pod gets them, and its next pod may go nowhere else"
        patch = {
            # A pod may have reserved the claim since it was read.
            "metadata": {"resourceVersion": facts.claim_versions.get(claim.uid)},
            "status": {"allocation": None, "reservedFor": None, "devices": None},
        }
        named = f"{claim.name} -n {claim.namespace}"
        fix = f"kubectl patch resourceclaim {named} --subresource=status --type=merge -p '{dumps(patch)}'"
        yield warning("LeakedAllocation", f"ResourceClaim {claim.namespace}/{claim.name}", what, fix)
