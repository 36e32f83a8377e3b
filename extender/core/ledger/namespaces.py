"""Namespaces as last seen: their labels, and in which of them no pod can be created any more."""

from __future__ import annotations

from extender.core.causes import NamespaceTerminating
from extender.core.events import NamespaceGone, NamespaceSeen
from policies.model import Labels

_REMEMBERED = 1_000
"""Namespaces that are gone, at most: what is left of their objects goes within moments."""


class Namespaces:
    """``labels``: those of each namespace that exists. One that was never shown, because Muster may not read
    namespaces, say, is like any that exists."""

    def __init__(self) -> None:
        self.labels: dict[str, Labels] = {}
        self._annotations: dict[str, Labels] = {}
        self._ending: dict[str, NamespaceTerminating] = {}
        """Why nothing starts there. Namespaces that are gone are among them: watches of their objects may lag."""

    def changes(self, event: NamespaceSeen | NamespaceGone) -> bool:
        """Tell whether the API server may do something else to new pods of a known namespace after this event."""
        if event.name not in self.labels:
            return False
        known = self.labels[event.name], self._annotations[event.name]
        return isinstance(event, NamespaceGone) or known != (event.labels, event.annotations)

    def note(self, event: NamespaceSeen | NamespaceGone) -> bool:
        """Take over what the watch shows. Returns whether the cause why nothing starts there has changed."""
        name = event.name
        before = self._ending.pop(name, None)
        if isinstance(event, NamespaceGone):
            self.labels.pop(name, None)
            self._annotations.pop(name, None)
            self._ending[name] = NamespaceTerminating(name, gone=True)
            gone = [one for one in self._ending if one not in self.labels]
            for one in gone[:-_REMEMBERED]:
                del self._ending[one]
        else:
            self.labels[name] = event.labels
            self._annotations[name] = event.annotations
            if event.terminating:
                self._ending[name] = NamespaceTerminating(name, gone=False)
        return before != self._ending.get(name)

    def ending(self, namespace: str) -> NamespaceTerminating | None:
        """Why no workload of that namespace starts: it is being deleted, so no pod can be created in it."""
        return self._ending.get(namespace)
