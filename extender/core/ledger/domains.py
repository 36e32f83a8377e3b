"""ComputeDomains of NVIDIA's driver: which there are, and what their pods ask of nodes beside a channel.

A pod is of a domain by a claim for one of its channels (``ClaimSpec.domain``). What its channel asks for is counted
like any device: a node has one. Beside that

1. the driver prepares a node for one domain at a time, and labels it so: pods go to no node with another label;
2. the driver starts a daemon on each node after the first pod was bound there: room is left for it;
3. the channel works in the domain's own namespace alone.

Where administrators run the IMEX service on the hosts, there are no daemons and no labels: the driver's chart leaves
the class of the daemons out.
"""

from __future__ import annotations

from extender.core.causes import ResourceClaims
from policies.model import Requirement, Terms
from policies.model.devices import DOMAIN_LABEL, ComputeDomain

DAEMON_CLASS = "compute-domain-daemon.nvidia.com"
_KIND = "ComputeDomain"


class ComputeDomains:
    """The ComputeDomains as last seen. ``listed``: whether these are all."""

    def __init__(self) -> None:
        self.seen: dict[str, ComputeDomain] = {}
        self.listed = False

    def put(self, domain: ComputeDomain) -> None:
        """A domain was added or changed."""
        self.seen[domain.uid] = domain

    def drop(self, uid: str) -> ComputeDomain | None:
        """A domain is gone. Returns what it was."""
        return self.seen.pop(uid, None)

    def note_listed(self, *, listed: bool) -> None:
        """Record whether these are all domains."""
        self.listed = listed

    def without_template(self, namespace: str, template: str, pod: str) -> ResourceClaims:
        """Say that a template is missing, and which domain is to have it."""
        of = [
            compute_domain.name
            for compute_domain in self.seen.values()
            if (compute_domain.namespace, compute_domain.template) == (namespace, template)
        ]
        return ResourceClaims("ResourceClaimTemplate", template, pod, domain=min(of, default=""))

    def missing(self, uid: str, namespace: str, named_by: str, pod: str) -> ResourceClaims | None:
        """Say that there is no such domain in that namespace; None if there is, or Muster cannot know."""
        domain = self.seen.get(uid)
        if domain is None:
            return ResourceClaims(_KIND, uid, pod, named_by=named_by) if self.listed else None
        if domain.namespace != namespace:
            return ResourceClaims(_KIND, str(domain), pod, named_by=named_by, elsewhere=True)
        return None


def open_to(uid: str) -> Terms:
    """The nodes that are not prepared for another domain."""
    return (Requirement(DOMAIN_LABEL, "DoesNotExist", ()),), (Requirement(DOMAIN_LABEL, "In", (uid,)),)
