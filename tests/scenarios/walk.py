"""Random walks: each step is drawn from a seed while one stage plays it, and another stage plays it after.

After every step the first stage settles, and the other stage must reach the same state. A drawn step leaves no
choice. Nodes of a clique are alike, and gangs are named in order of age. While a gang waits for room, nodes are
added one by one: with several, the first gang in line would get what exists at that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from extender.simulation.chance import Chance
from policies.model import GANG_GATE
from tests.scenarios.pods import FOREIGN_GATE, bound, labelled, member, pod
from tests.scenarios.scenario import Ending, ending
from tests.scenarios.stage import Object, Stage

Act = Callable[[Stage], None]
_CLIQUES = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a walk.

    ``told``: the step in words.
    ``ending``: the settled state, reasons in a word.
    """

    told: str
    act: Act
    ending: Ending


@dataclass(slots=True)
class Submitted:
    """A gang as its user knows it: ``there`` are the names of its pods, ``missing`` those yet to be created."""

    name: str
    there: list[str]
    missing: list[Object]
    gated: list[str]
    group: int = 0
    """minMember of its PodGroup object; 0 when it has none."""
    make: Callable[[str], Object] = field(default=pod)
    made: int = 0


class Walk:
    """Draws steps that fit how things stand on ``stage``; ``rest`` lets that stage come to rest."""

    def __init__(self, seed: int, stage: Stage, rest: Callable[[], None]) -> None:
        self._random = Chance(seed).stream("walk")
        self._stage = stage
        self._rest = rest
        self._gangs: dict[str, Submitted] = {}
        self._closed: dict[str, None] = {}
        self._numbers = 0

    def steps(self, count: int) -> list[Step]:
        """Play ``count`` steps, nodes first, and return them."""
        played = [self._play(*self._add_nodes(count)) for count in self._random.sample(range(1, 6), 3)]
        while len(played) < count:
            draw = self._random.choices(*zip(*self._choices(), strict=True))[0]
            if (drawn := draw()) is not None:
                played.append(self._play(*drawn))
        return played

    def _play(self, told: str, act: Act) -> Step:
        act(self._stage)
        self._rest()
        return Step(told, act, ending(self._stage, brief=True))

    def _choices(self) -> list[tuple[Callable[[], tuple[str, Act] | None], int]]:
        return [
            (self._submit, 8),
            (lambda: self._add_nodes(1), 3),
            (self._close, 1),
            (self._open, 2),
            (self._complete, 3),
            (self._open_gate, 3),
            (self._delete, 2),
            (self._succeed, 3),
            (self._lose_member, 3),
            (self._edit_group, 2),
            (self._make_group_anew, 1),
            (self._restart, 1),
            (self._single, 1),
        ]

    def _add_nodes(self, count: int) -> tuple[str, Act]:
        clique = self._random.choice(_CLIQUES)
        self._closed.pop(clique, None)
        return f"{count} nodes in clique {clique}", lambda stage: (stage.add_nodes(count, clique=clique), None)[1]

    def _close(self) -> tuple[str, Act]:
        return self._cordon(self._random.choice(_CLIQUES), on=True)

    def _open(self) -> tuple[str, Act] | None:
        if not self._closed or self._somebody_waits():
            return None
        return self._cordon(self._random.choice(list(self._closed)), on=False)

    def _cordon(self, clique: str, *, on: bool) -> tuple[str, Act]:
        if on:
            self._closed[clique] = None
        else:
            del self._closed[clique]

        def act(stage: Stage) -> None:
            for node in [node for node, its in stage.cliques.items() if its == clique]:
                stage.cordon(node, on=on)

        return f"clique {clique} is {'cordoned' if on else 'opened'}", act

    def _submit(self) -> tuple[str, Act]:
        dice = self._random
        name, size, gpus = f"g{self._numbers:02}", dice.randint(1, 6), dice.choice((8, 8, 4))
        self._numbers += 1
        facts: dict[str, object] = {"gpus": gpus}
        if dice.random() < 0.15:
            facts["priorityClassName"] = "high"
        gates = (GANG_GATE,) if dice.random() < 0.7 else ()
        topology = "nvidia.com/gpu.clique" if dice.random() < 0.25 else ""
        has_group = dice.random() < 0.4
        # An elastic gang starts with the members that Muster sees first: its PodGroup comes last, so that it sees all.
        needed = max(1, size - dice.choice((0, 1, 2))) if has_group else size

        def make(pod_name: str) -> Object:
            if has_group:
                return labelled(pod_name, name, topology=topology, gates=gates, **facts)
            return member(pod_name, name, needed, topology=topology, gates=gates, **facts)

        pods = [make(f"{name}-{i}") for i in range(size)]
        gated = []
        if dice.random() < 0.15:
            pods[0]["spec"]["schedulingGates"] = [{"name": gate} for gate in (*gates, FOREIGN_GATE)]
            gated = [pods[0]["metadata"]["name"]]
        missing = pods[size:] if dice.random() < 0.75 else [pods.pop()] if size > 1 else []
        there = [obj["metadata"]["name"] for obj in pods]
        self._gangs[name] = Submitted(name, there, missing, gated, needed if has_group else 0, make)

        def act(stage: Stage) -> None:
            stage.create(*pods)
            if has_group:
                stage.set_group(name, needed)

        kind = ", ".join(["one clique"] * bool(topology) + ["gated"] * bool(gates) + ["PodGroup"] * has_group)
        return f"{name}: {len(pods)} of {size} pods x {gpus} GPUs, minMember {needed} {kind} {facts}", act

    def _complete(self) -> tuple[str, Act] | None:
        gang = self._some(lambda candidate: bool(candidate.missing))
        if gang is None:
            return None
        last = gang.missing.pop()
        gang.there.append(last["metadata"]["name"])
        return f"{gang.there[-1]} comes", lambda stage: stage.create(last)

    def _open_gate(self) -> tuple[str, Act] | None:
        gang = self._some(lambda candidate: bool(candidate.gated))
        if gang is None:
            return None
        name = gang.gated.pop()
        return f"{name} loses {FOREIGN_GATE}", lambda stage: stage.open_gate(name, FOREIGN_GATE)

    def _delete(self) -> tuple[str, Act] | None:
        gang = self._some(
            lambda candidate: bool(candidate.there) and (self._bound(candidate) == 0 or not self._somebody_waits())
        )
        if gang is None:
            return None
        del self._gangs[gang.name]

        def act(stage: Stage) -> None:
            stage.delete(*gang.there)
            if gang.group:
                stage.remove_group(gang.name)

        return f"{gang.name} is deleted", act

    def _succeed(self) -> tuple[str, Act] | None:
        gang = self._some_that_runs()
        if gang is None:
            return None
        del self._gangs[gang.name]
        return f"{gang.name} ends well", lambda stage: stage.succeed(*gang.there)

    def _lose_member(self) -> tuple[str, Act] | None:
        """Delete a member of a gang that runs whole; a replacement comes at once."""
        gang = self._some_that_runs()
        if gang is None:
            return None
        lost = gang.there.pop(self._random.randrange(len(gang.there)))
        gang.made += 1
        anew = gang.make(f"{lost}x{gang.made}")
        gang.there.append(anew["metadata"]["name"])

        def act(stage: Stage) -> None:
            stage.delete(lost)
            stage.create(anew)

        return f"{lost} is deleted, and replaced", act

    def _edit_group(self) -> tuple[str, Act] | None:
        gang = self._some(lambda candidate: candidate.group > 0 and self._bound(candidate) == 0)
        if gang is None:
            return None
        least = gang.group = max(1, gang.group + self._random.choice((-1, 1)))
        return f"minMember of {gang.name} is {least} now", lambda stage: stage.set_group(gang.name, least)

    def _make_group_anew(self) -> tuple[str, Act] | None:
        gang = self._some(lambda candidate: candidate.group > 0)
        if gang is None:
            return None
        least = gang.group

        def act(stage: Stage) -> None:
            stage.remove_group(gang.name)
            stage.set_group(gang.name, least)

        return f"the PodGroup of {gang.name} is made anew", act

    def _restart(self) -> tuple[str, Act]:
        def act(stage: Stage) -> None:
            stage.kill_extender()
            stage.start_extender()

        return "the extender is killed and started again", act

    def _single(self) -> tuple[str, Act] | None:
        """Create and delete a single pod: which node it was on must not matter later."""
        if len(self._closed) >= len({*self._stage.cliques.values()}):
            return None
        name = f"single{self._numbers:02}"
        self._numbers += 1

        def act(stage: Stage) -> None:
            stage.create(pod(name, gpus=0))
            stage.until(lambda pods: any(seen.name == name and seen.node for seen in pods))
            stage.delete(name)

        return f"{name} comes and goes", act

    def _some_that_runs(self) -> Submitted | None:
        """A gang that is bound whole, while no gang waits for its room."""
        return None if self._somebody_waits() else self._some(lambda gang: self._bound(gang) == len(gang.there) > 0)

    def _somebody_waits(self) -> bool:
        """A gang would take room that comes free."""
        gangs = self._stage.gangs().values()
        return any(gang.bound < gang.members and gang.state in ("NoRoom", "Running") for gang in gangs)

    def _bound(self, gang: Submitted) -> int:
        return len(bound(self._stage.pods(), gang.name))

    def _some(self, holds: Callable[[Submitted], bool]) -> Submitted | None:
        candidates = [candidate for candidate in self._gangs.values() if holds(candidate)]
        return self._random.choice(candidates) if candidates else None
