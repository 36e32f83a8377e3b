"""The workloads of each queue, who of them uses how much of which quota, and where quota was given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.core.claim import Owner
from extender.core.quota.flavoring import PartKey
from extender.core.quota.queues import Queues
from policies.model import GroupKey
from policies.model.queues import FlavorResource, Usage
from policies.quota.tree import QuotaTree


class QueueMembers:
    """``names``: the LocalQueue of each workload that has one. ``moved_on``: ClusterQueues of which some workload has
    left, or stands otherwise, since that was taken."""

    def __init__(self) -> None:
        self.names: dict[GroupKey, str] = {}
        self.moved_on: dict[str, None] = {}
        self._of: dict[str, dict[GroupKey, None]] = {}
        self._queue_of: dict[GroupKey, str] = {}
        self._states: dict[GroupKey, object] = {}
        self._versions: dict[str, int] = {}

    def touch(self, queue: str) -> None:
        """Something that a report says of it may have changed."""
        self._versions[queue] = self._versions.get(queue, 0) + 1

    def version(self, queues: Iterable[str]) -> int:
        """It is another one whenever one of them was touched."""
        return sum(self._versions.get(queue, 0) for queue in queues)

    def of(self, queue: str) -> Iterable[GroupKey]:
        """Those of that ClusterQueue."""
        return self._of.get(queue, ())

    def queue_of(self, key: GroupKey) -> str | None:
        """The ClusterQueue that it is counted in."""
        return self._queue_of.get(key)

    def name(self, key: GroupKey, name: str) -> None:
        """It names that LocalQueue, or none if that is empty."""
        if name:
            self.names[key] = name
        else:
            self.names.pop(key, None)
            self._states.pop(key, None)

    def enter(self, key: GroupKey, queue: str) -> None:
        """It belongs to that ClusterQueue, and to no other."""
        self.touch(queue)
        self._queue_of[key] = queue
        self._of.setdefault(queue, {})[key] = None

    def leave(self, key: GroupKey) -> None:
        """It belongs to no ClusterQueue any more."""
        if (queue := self._queue_of.pop(key, None)) is not None:
            self.touch(queue)
            self.moved_on[queue] = None
            self._of[queue].pop(key)
            if not self._of[queue]:
                del self._of[queue]

    def stand(self, key: GroupKey, state: object) -> bool:
        """That is how it stands now. Returns whether it has stood otherwise."""
        if self._states.get(key) == state:
            return False
        self._states[key] = state
        queue = self._queue_of.get(key, "")
        self.touch(queue)
        self.moved_on[queue] = None
        return True

    def take_moved_on(self) -> dict[str, None]:
        """Those since the last time."""
        moved_on, self.moved_on = self.moved_on, {}
        return moved_on


class Kept(str):
    """Who owns what is kept for a workload until others have given way to it."""

    __slots__ = ()


KEPT = Kept("kept")


@dataclass(frozen=True, slots=True)
class Use:
    """Of one pod or slot. ``queue``: the ClusterQueue. ``part``: as in ``Flavoring``. ``unseen``: there is no claim of
    a node for it, of pods without a node, of a job that somebody else has started, or it is kept for who is to come."""

    queue: str
    part: PartKey
    flavors: Mapping[str, str]
    usage: Usage
    unseen: bool = False


class QuotaUses:
    """``version`` grows with every change. ``freed``: roots of the trees in which quota was given back since that was
    taken."""

    def __init__(self, queues: Queues, members: QueueMembers) -> None:
        self.version = 0
        self.freed: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._queues = queues
        self._members = members
        self._of: dict[GroupKey, dict[Owner, Use]] = {}
        self._known: dict[tuple[str, FlavorResource], dict[GroupKey, int]] = {}
        self._known_at = 0

    def __iter__(self) -> Iterator[GroupKey]:
        """The workloads that use any."""
        return iter(self._of)

    def __contains__(self, key: GroupKey) -> bool:
        """Whether the workload uses any."""
        return key in self._of

    def of(self, key: GroupKey) -> Mapping[Owner, Use]:
        """What each of its pods and slots uses."""
        return self._of.get(key, {})

    def put(self, key: GroupKey, owner: Owner, use: Use) -> None:
        """That is what it uses from now on."""
        self.end(key, owner)
        self._of.setdefault(key, {})[owner] = use
        tree = self._queues.picture.tree
        if use.queue in tree.queues:
            tree.use(use.queue, use.usage)
            self._changed[tree.root_of(use.queue)] = None
        self._members.touch(use.queue)
        self.version += 1

    def end(self, key: GroupKey, owner: Owner) -> None:
        """It uses nothing any more."""
        uses, tree = self._of.get(key), self._queues.picture.tree
        if uses is None or (use := uses.pop(owner, None)) is None:
            return
        if not uses:
            del self._of[key]
        if use.queue in tree.queues:
            tree.free(use.queue, use.usage)
            root = tree.root_of(use.queue)
            self.freed[root] = self._changed[root] = None
        self._members.touch(use.queue)
        self.version += 1

    def total(self, key: GroupKey) -> Counter[FlavorResource]:
        """What the workload uses."""
        total = Counter[FlavorResource]()
        for use in self.of(key).values():
            total.update(use.usage)
        return total

    def lift(self, key: GroupKey, owner: Owner) -> Use | None:
        """Take it out for a moment: nobody else is told that it is free."""
        freed = dict(self.freed)
        use = self.of(key).get(owner)
        self.end(key, owner)
        self.freed = freed
        return use

    def end_all(self, key: GroupKey) -> None:
        """Nothing of the workload uses any."""
        for owner in [*self.of(key)]:
            self.end(key, owner)

    def begin_anew(self) -> dict[GroupKey, dict[Owner, Use]]:
        """The tree is another one: nothing is counted in it. Returns what was."""
        former, self._of = self._of, {}
        self.freed.update((root, None) for root in self._queues.picture.tree.roots)
        self.version += 1
        return former

    def carry_over(self, former: QuotaTree, queues: Iterable[str]) -> None:
        """The tree is another one, and of each queue as much is used as of the former. ``queues``: those that may have
        more by that."""
        tree = self._queues.picture.tree
        for name, node in former.queues.items():
            tree.use(name, node.used)
        self.freed.update((tree.root_of(name), None) for name in queues)
        self.version += 1

    def users(self, what: FlavorResource, queue: str) -> Mapping[GroupKey, int]:
        """Who uses how much of that flavor and resource, of that queue and those that lend to it."""
        if self._known_at != self.version:
            self._known_at = self.version
            self._known.clear()
        tree = self._queues.picture.tree
        root = tree.root_of(queue)
        if (found := self._known.get((root, what))) is None:
            found = self._known[root, what] = {}
            for name in tree.below(root):
                for key in self._members.of(name):
                    if amount := sum(use.usage.get(what, 0) for use in self.of(key).values()):
                        found[key] = amount
        return found

    def take_freed(self) -> list[str]:
        """Roots of the trees in which quota was given back since the last time."""
        freed, self.freed = [*self.freed], {}
        return freed

    def take_changed(self, known: Container[str]) -> list[str]:
        """Roots of the trees in which others use quota than the last time, but for those that are ``known``."""
        changed, self._changed = self._changed, {}
        return [root for root in changed if root not in known]
