"""Faults of processes and of their connections: killed, replaced, suspended, cut off."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.model.changes import Kind
from tests.simulation.trouble import Trouble


def kill_extender(trouble: Trouble) -> None:
    trouble.world.kill_extender()
    trouble.referee.extender_killed()
    trouble.later(trouble.start_extender)


def replace_extender(trouble: Trouble) -> None:
    """Another one takes over at once, while writes of the first are still under way."""
    trouble.world.kill_extender()
    trouble.referee.extender_killed()
    trouble.world.start_extender()


def kill_scheduler(trouble: Trouble) -> None:
    trouble.world.kill_scheduler()
    trouble.later(trouble.world.start_scheduler)


def kill_both(trouble: Trouble) -> None:
    """Kill both: they live in one pod, and lose their Lease together."""
    kill_scheduler(trouble)
    kill_extender(trouble)


def change_leader(trouble: Trouble) -> None:
    """Give the Lease to the other pod of the deployment: both containers start at once, from what their watches have
    shown.

    Requests that the last leader has sent still land.
    """
    world, other = trouble.world, trouble.world.stand_by()

    def take_over() -> None:
        if trouble.healed:
            other.kill()
            return
        trouble.referee.extender_killed()
        trouble.referee.another_pod_leads()
        world.change_leader(other)

    trouble.later(take_over, 3.0)


def freeze_extender(trouble: Trouble) -> None:
    """Suspended and resumed: for the process, the clock jumps."""
    if trouble.world.extender is not None:
        seconds = trouble.random.choice((0.5, 5.0, 40.0))
        trouble.world.extender.freeze(seconds)
        trouble.referee.extender_suspended(trouble.world.clock.now + seconds)


def freeze_scheduler(trouble: Trouble) -> None:
    if trouble.world.scheduler is not None:
        trouble.world.scheduler.freeze(trouble.random.choice((0.5, 5.0, 40.0)))


def break_watches(trouble: Trouble) -> None:
    kind = trouble.random.choice((None, *trouble.world.kinds))
    trouble.world.break_watches(5 * trouble.random.random(), relist=trouble.random.random() < 0.5, kind=kind)


def stop_watch(trouble: Trouble) -> None:
    """A connection dies without a word. The client notices when the time is over that the watch was to last."""
    seconds = 20 + 15 * trouble.random.random()
    trouble.world.break_watches(seconds, relist=False, kind=trouble.random.choice(trouble.world.kinds))


def cut_watch(trouble: Trouble) -> None:
    """Cut all watches in the middle of a line, as a proxy before the API server may do."""
    times = trouble.random.choice((1, 3, 12))
    if trouble.world.extender is not None:
        for kind in trouble.world.kinds:
            trouble.world.extender.watch(kind).cut(times)


def expire_watch(trouble: Trouble) -> None:
    """The API server answers 410 to one watch after the other."""
    if trouble.world.extender is not None:
        trouble.world.extender.watch(trouble.random.choice((Kind.PODS, *trouble.world.kinds))).expire(
            trouble.random.choice((2, 6))
        )


def hang_write(trouble: Trouble) -> None:
    """Let the extender's next requests go unanswered."""
    trouble.world.network.hanging = trouble.random.choice((1, 1, 3))


def slow_api(trouble: Trouble) -> None:
    """Requests wait in the API server: the extender's lanes fill up."""
    network = trouble.world.network
    network.queue_s = trouble.random.choice((0.2, 1.0, 3.0))

    def over() -> None:
        network.queue_s = 0.0

    trouble.later(over)


def break_scheduler_watches(trouble: Trouble) -> None:
    if trouble.world.scheduler is not None:
        seconds = 5 * trouble.random.random()
        trouble.world.scheduler.observed.interrupt(seconds, relist=trouble.random.random() < 0.5)


def api_down(trouble: Trouble) -> None:
    network = trouble.world.network
    network.api_down = True

    def up() -> None:
        network.api_down = False

    trouble.later(up)


def jobs_unread(trouble: Trouble) -> None:
    """Make all jobs unreadable for longer than a write to one is tried; watches continue."""
    network = trouble.world.network
    network.unread = True

    def over() -> None:
        network.unread = False

    trouble.world.clock.after(trouble.random.choice((10.0, 14.0, 26.0)), over)


def refuse_writes(trouble: Trouble) -> None:
    """Let no write get through, for a moment or for longer than one is tried. Rights or a policy are changed, a proxy
    has lost the API server, or that is busy."""
    network = trouble.world.network
    network.refuses = trouble.random.choice((403, 403, 404, 422, 429, 500))

    def over() -> None:
        network.refuses = 0

    trouble.world.clock.after(trouble.random.choice((0.5, 2.0, 14.0, 40.0)), over)


def hang(trouble: Trouble) -> None:
    """Silence the API server for about as long as a bind request waits, whether it carries out requests or not."""
    network, seconds = trouble.world.network, trouble.world.profile.bind_timeout_s
    before = network.weather
    if trouble.random.random() < 0.5:
        network.weather = replace(before, losses=1.0)
    else:
        network.api_down = True

    def over() -> None:
        network.api_down = False
        if not trouble.healed:
            network.weather = replace(network.weather, losses=before.losses)

    trouble.world.clock.after(seconds * (0.9 + 0.3 * trouble.random.random()), over)


def storm(trouble: Trouble) -> None:
    """Half of all answers are lost, and a third of all requests fail."""
    network = trouble.world.network
    before = network.weather
    network.weather = replace(before, errors=0.3, losses=0.5)

    def over() -> None:
        if not trouble.healed:
            network.weather = replace(network.weather, errors=before.errors, losses=before.losses)

    trouble.later(over)
