"""The oracle of the admission cycle: the decisions on quota and on preemption as pure functions, for conformance tests.

``quota.decide(world, incoming)`` takes what there is and the workloads that wait. It says in which order they are
admitted, with which flavors, and why the others wait. ``preemption.decide(world, preemptor)`` says whom one workload
evicts, and by which rule. ``evictions=offers.offers(world)`` lets the first ask the second. Muster itself runs none of
this: ``tests/core/test_parity.py`` compares it with the cycle of ``extender.core`` on random worlds. A case::

    from policies.model.queues import ClusterQueue, Quota, ResourceFlavor, ResourceGroup
    from policies.quota.parts import PodSetRequest
    from tests.conformance.quota import Incoming, World, decide

    gpus = ResourceGroup(("nvidia.com/gpu",), (("h100", {"nvidia.com/gpu": Quota(nominal=8)}),))
    world = World([ClusterQueue("research", (gpus,))], flavors={"h100": ResourceFlavor("h100")})
    decide(world, [Incoming("a", "research", [PodSetRequest("main", 2, {"nvidia.com/gpu": 4})])])

More of them are in ``tests/policies/quota``, ``tests/policies/preemption`` and, as tables, ``tests/policies/tables``.
"""
