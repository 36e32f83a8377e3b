"""What the PriorityClasses make of the pods of a template."""

from __future__ import annotations

from extender.kube.kinds.completion import Completion, PriorityClass, TemplateSpec
from extender.kube.reading.objects import Meta


def test_a_pod_that_names_no_priority_class_has_all_of_the_least_default() -> None:
    never = PriorityClass(Meta(name="polite"), 7, global_default=True, preemption_policy="Never")
    higher = PriorityClass(Meta(name="rude"), 8, global_default=True, preemption_policy="PreemptLowerPriority")
    named = PriorityClass(Meta(name="low"), 1, preemption_policy="PreemptLowerPriority")
    spec = TemplateSpec()
    assert not Completion(priorities={"rude": higher, "polite": never, "low": named}).complete("team", spec)
    assert (spec.priority, spec.preemption_policy) == (7, "Never")


def test_without_a_default_it_has_no_priority_and_may_preempt() -> None:
    spec = TemplateSpec()
    assert not Completion(priorities={}).complete("team", spec)
    assert (spec.priority, spec.preemption_policy) == (0, None)
