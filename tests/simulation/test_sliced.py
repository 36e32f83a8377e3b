"""Seeds whose core does little at a time."""

from __future__ import annotations

from tests.simulation.campaign import Run
from tests.simulation.drawing import draw
from tests.simulation.process_plan import is_sliced


def test_seeds_with_slices_are_never_calm_and_the_referee_knows_of_them() -> None:
    plans = [draw(seed) for seed in range(1, 3000)]
    sliced = [plan for plan in plans if plan.slices is not None]
    assert [plan.seed for plan in sliced] == [seed for seed in range(1, 3000) if is_sliced(seed)]
    assert len(sliced) > 40
    assert all(plan.terms.sliced and not plan.calm for plan in sliced)
    assert {plan.core().state.limits.slice_units for plan in sliced} == {3, 8, 20}
    assert {plan.core(sliced=False).state.limits.slice_units for plan in sliced} == {600}


def test_what_the_watches_show_comes_in_the_middle_of_a_pass() -> None:
    run = Run(draw(1354))
    assert run.world.extender is not None
    core = run.world.extender.core
    seen = {True: 0, False: 0}
    real = run.referee.watch

    def watch(event: object, effects: list[object]) -> None:
        if type(event).__name__ in ("PodSeen", "PodsSeen"):
            wake = core.next_wake()
            seen[wake is not None and wake <= run.world.clock.now] += 1
        real(event, effects)  # type: ignore[arg-type]

    run.referee.watch = watch  # type: ignore[method-assign,assignment]
    run.play()
    assert seen[True] > 10
