"""Traps in the profiles of kube-scheduler: whom they serve, at how many nodes they look, and what their plugins do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.cli.doctor.facts import Facts, Tree
from extender.cli.doctor.finding import Finding, error, warning


def check_profiles(config: Tree, profiles: list[Tree], facts: Facts) -> Iterator[Finding]:
    """The findings about the profiles of that configuration. What has an odd shape in them says nothing."""
    yield from _sampling(config, profiles)
    for at, profile in enumerate(profiles):
        yield from _plugins(f"profiles[{at}].plugins", _tree(profile.get("plugins")))
        yield from _hidden(f"profiles[{at}].pluginConfig", _trees(profile.get("pluginConfig")))
    served = [str(one.get("schedulerName") or "default-scheduler") for one in profiles]
    for name in facts.ours:
        if name not in served:
            what = f"no profile is called {name}, which is in Muster's scheduler_names: its pods are not scheduled"
            yield error("NoProfile", "profiles", what, f"add a profile with schedulerName: {name}")
    for name in served:
        if name not in facts.ours:
            what = f"profile {name} calls Muster, which treats its pods as another scheduler's: their gangs never start"
            yield warning("ProfileNotOurs", "profiles", what, f"add {name} to scheduler_names")


def _tree(said: object) -> Tree:
    return dict(said) if isinstance(said, Mapping) else {}


def _trees(said: object) -> list[Tree]:
    return [dict(one) for one in said if isinstance(one, Mapping)] if isinstance(said, list) else []


def _sampling(config: Tree, profiles: list[Tree]) -> Iterator[Finding]:
    """A profile's own share wins over the one for all."""
    where = "percentageOfNodesToScore"
    shares: dict[str, object] = {}
    for at, profile in enumerate(profiles):
        own = profile.get(where)
        shares.setdefault(*((where, config.get(where)) if own is None else (f"profiles[{at}].{where}", own)))
    for name, share in shares.items():
        if share != 100:
            what = f"{'unset' if share is None else share}: above 100 nodes kube-scheduler often skips the planned node"
            yield error("NodesSampled", name, what, "set percentageOfNodesToScore: 100")


def _plugins(where: str, points: Tree) -> Iterator[Finding]:
    """Plugins that do what Muster does, or that it counts on. ``points``: what is enabled at each extension point."""
    enabled = {name: {one.get("name") for one in _trees(_tree(said).get("enabled"))} for name, said in points.items()}
    if any("Coscheduling" in names for names in enabled.values()):
        what = "its plugin Coscheduling makes members wait for each other before they reach Muster's hold"
        yield error("Coscheduling", where, what, "take it out: Muster reads its PodGroups (docs/migrate.md)")
    elif others := enabled.get("queueSort", set()) - {"PrioritySort"}:
        what = (
            f"{min(map(str, others))} sorts the queue: Muster tells by the order of PrioritySort whose turn is to come"
        )
        yield warning("OtherQueueSort", f"{where}.queueSort", what, "leave queueSort out")


def _hidden(where: str, configs: list[Tree]) -> Iterator[Finding]:
    """What plugins demand of the nodes of all pods, and no pod says."""
    for args in (_tree(one.get("args")) for one in configs):
        affinity, spread = _tree(args.get("addedAffinity")), _trees(args.get("defaultConstraints"))
        asked = {
            "addedAffinity": "requiredDuringSchedulingIgnoredDuringExecution" in affinity,
            "defaultConstraints": any(one.get("whenUnsatisfiable") == "DoNotSchedule" for one in spread),
        }
        for name in [name for name, hides in asked.items() if hides]:
            what = (
                f"{name} closes nodes for a reason that no pod says: gangs are planned there, refused, and planned anew"
            )
            yield warning("HiddenDemand", where, what, "taint such nodes, or say it in the pods")
