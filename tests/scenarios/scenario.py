"""A scenario: what happens to a cluster, and how it must end on whatever stage it is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from extender.api.models import GangView
from policies.model import Pod
from tests.scenarios.pods import whole
from tests.scenarios.stage import Setting, Stage

Ending = tuple[str, ...]
"""A line for every gang and single pod, sorted; gangs called NAME.1, NAME.2 are interchangeable and counted."""

_MOVING = ("New", "Placed", "Holding", "Releasing", "Forgotten")
SCENARIOS: dict[str, Scenario] = {}
"""The scenarios by name, in the order in which they were written down."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``play`` acts, waits for moments and asserts on the way; ``ending`` is how everything stands afterwards."""

    name: str
    about: str
    part: str
    play: Callable[[Stage], None]
    ending: Ending
    setting: Setting

    def __str__(self) -> str:
        return self.name


def scenario(*ending: str, setting: Setting | None = None) -> Callable[[Callable[[Stage], None]], Scenario]:
    """Enter the function into SCENARIOS, with these lines as its ending."""

    def enter(play: Callable[[Stage], None]) -> Scenario:
        about, module = " ".join((play.__doc__ or "").split()), play.__module__.rpartition(".")[2]
        entered = Scenario(play.__name__, about, module, play, tuple(sorted(ending)), setting or Setting())
        if SCENARIOS.setdefault(entered.name, entered) is not entered:
            raise ValueError(f"two scenarios are called {entered.name}")
        return entered

    return enter


def ending(stage: Stage, *, brief: bool = False) -> Ending:
    """How everything stands now, in words that are the same on every stage. ``brief``: every reason in a word."""
    pods, gangs = stage.pods(), stage.gangs()
    members: dict[str, list[Pod]] = {}
    lines: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if pod.group is None:
            lines[_role(pod.name), "bound" if pod.node else "waits"] += 1
        else:
            members.setdefault(pod.group.name, []).append(pod)
    for name, those in members.items():
        lines[
            _role(name), _outcome(stage, those) + _reason(stage, gangs.get(name), brief=brief or _role(name) != name)
        ] += 1
    outcomes = [f"{role}{f' x {count}' if count > 1 else ''}: {how}" for (role, how), count in lines.items()]
    held = sum(gang.held for gang in gangs.values())
    return tuple(sorted(outcomes + ([f"{held} binds are held"] if held else [])))


def at_rest(stage: Stage) -> bool:
    """No gang is on its way: its members run, or wait for a reason."""
    return not any(gang.state in _MOVING and gang.bound < gang.members for gang in stage.gangs().values())


def _outcome(stage: Stage, members: list[Pod]) -> str:
    live = [pod for pod in members if not pod.terminal]
    bound = [pod.node for pod in live if pod.node]
    text = f"{len(bound)} of {len(live)} bound"
    if bound and all(node in stage.cliques for node in bound):
        cliques = sorted(dict.fromkeys(stage.cliques[node] for node in bound))
        text += f" in clique{'s' * (len(cliques) > 1)} {', '.join(cliques)}"
    if gates := sum(bool(pod.gates) for pod in live):
        text += f", {gates} gated"
    if ended := len(members) - len(live):
        text += f", {ended} succeeded"
    return text


def _reason(stage: Stage, gang: GangView | None, *, brief: bool) -> str:
    """The reason why it waits. That of interchangeable gangs is one word, for numbers depend on which was first."""
    if gang is None or gang.state in ("Running", "Ended"):
        return ""
    if brief:
        return f", {gang.state}"
    message = gang.message.replace(f"{stage.namespace}.", "").replace(stage.namespace, "the namespace")
    return f", {gang.state}: {message}"


def _role(name: str) -> str:
    return name.partition(".")[0]


def until_bound(stage: Stage, gangs: str | Iterable[str], size: int) -> None:
    """Wait until each of these gangs has at least ``size`` bound members."""
    names = [gangs] if isinstance(gangs, str) else list(gangs)
    stage.until(lambda pods: whole(pods, names, size) == names)


def until_reason(stage: Stage, gang: str, code: str, text: str = "") -> None:
    """Wait until the gang has this reason, with this text in it."""
    stage.until_told(gang, lambda seen: seen.state == code and text in seen.message)
