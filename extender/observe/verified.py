"""The self-check as the API shows it (``extender.api.models``)."""

from __future__ import annotations

from extender.api.models import DifferenceView, VerifyView
from extender.runtime.verifier import Result, Verifier

UNCHECKED = VerifyView(
    rounds=0,
    under_way=False,
    confirming=False,
    progress=0.0,
    every_s=0.0,
    restarts=0,
    problem="this process has no self-check",
    ago_s=None,
    seconds=0.0,
    differences=[],
    unconfirmed=0,
    compared={},
    left_out={},
)
"""The view if nothing can be checked."""


def verified(verifier: Verifier, now: float) -> VerifyView:
    """The findings of the last round, as of ``now``."""
    last = verifier.last or Result(now)
    return VerifyView(
        rounds=verifier.rounds,
        under_way=verifier.under_way,
        confirming=verifier.confirming,
        progress=0.0 if verifier.check is None else round(verifier.check.progress, 2),
        every_s=verifier.every_s,
        restarts=verifier.restarts,
        problem=last.problem,
        ago_s=None if verifier.last is None else round(now - last.at, 3),
        seconds=round(last.seconds, 3),
        differences=[
            DifferenceView(
                kind=difference.kind.value,
                object=difference.object,
                running=difference.running,
                rebuilt=difference.rebuilt,
            )
            for difference in last.differences
        ],
        unconfirmed=last.unconfirmed,
        compared={kind.value: count for kind, count in last.compared.items()},
        left_out=dict(last.left_out),
    )
