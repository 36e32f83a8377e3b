"""The oracle of the admission cycle: the decisions on quota and on preemption as pure functions, for conformance tests.

``quota.decide(world, incoming)`` takes the facts and the workloads that wait. It returns in which order they are
admitted, with which flavors, and why the others wait. ``preemption.decide(world, preemptor)`` returns the victims of
one workload, and by which rule. ``evictions=offers(...)`` lets the first ask the second. Muster itself runs none of
this: ``tests/core/test_parity.py`` compares it with the cycle of ``extender.core`` on random worlds. A case::

    from policies.model.queues import ClusterQueue, Evicts, Preemption, Quota, ResourceFlavor, ResourceGroup
    from policies.preemption.candidates import Candidate, Unit
    from policies.quota.parts import PodSetRequest
    from tests.conformance import preemption
    from tests.conformance.offers import offers
    from tests.conformance.quota import Admitted, Incoming, World, decide

    gpu = "nvidia.com/gpu"
    group = ResourceGroup((gpu,), (("h100", {gpu: Quota(nominal=8)}),))
    queues = [ClusterQueue("research", (group,), preemption=Preemption(within=Evicts.LOWER))]
    used = {("h100", gpu): 8}
    running = [Candidate("old", Unit.WORKLOAD, priority=0, created=0.0, queue="research", usage=used)]
    world = World(
        queues,
        flavors={"h100": ResourceFlavor("h100")},
        admitted=[Admitted("research", used)],
        evictions=offers(preemption.World(running, queues)),
    )
    [decision] = decide(world, [Incoming("new", "research", [PodSetRequest("main", 2, {gpu: 4})], priority=10)])
    assert decision.assignment.fit.name == "PREEMPT"
    assert decision.victims == {"old": "InClusterQueue"}

More cases are in ``tests/policies/quota``, ``tests/policies/preemption`` and, as tables, ``tests/policies/tables``.
"""
