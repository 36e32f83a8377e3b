"""The leader, as far as one replica can know it: by the holder's name, and for as long as renewals are seen."""

from __future__ import annotations

import asyncio

import pytest

from extender.runtime.election import LeaderElection, Leadership, Lease

OURS = "muster-7d9f-abcde_0b6c1f4e-90aa-4a5a-8c3e-5d2f"
THEIRS = "muster-7d9f-vwxyz_4f2e"


class Clocks:
    """The monotonic clock and the wall clock of one machine."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = 1_800_000_000.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def lease(self, holder: str = OURS, age: float = 0.0, duration_s: float = 15.0) -> Lease:
        return Lease(holder, self.wall - age, duration_s)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def leadership(clocks: Clocks) -> Leadership:
    return Leadership("muster-7d9f-abcde", clock=lambda: clocks.now, wall=lambda: clocks.wall)


def test_nobody_leads_before_the_lease_was_seen(leadership: Leadership) -> None:
    assert not leadership.holds()


def test_our_kube_scheduler_is_told_by_the_host_name_in_front_of_its_uuid(
    leadership: Leadership, clocks: Clocks
) -> None:
    for holder, leads in (
        (OURS, True),
        (THEIRS, False),
        ("muster-7d9f-abcde", False),
        ("muster-7d9f-abcde-2_0b6c", False),
        ("muster-7d9f_0b6c", False),
        ("", False),
    ):
        leadership.seen(clocks.lease(holder))
        assert leadership.holds() is leads, holder


def test_without_a_name_it_is_that_of_this_host(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "muster-7d9f-abcde")
    leadership = Leadership(clock=lambda: clocks.now, wall=lambda: clocks.wall)
    leadership.seen(clocks.lease())
    assert leadership.holds()


def test_whoever_is_not_seen_renewing_acts_no_more_a_third_of_the_duration_before_another_can_lead(
    leadership: Leadership, clocks: Clocks
) -> None:
    leadership.seen(clocks.lease())
    clocks.pass_by(9.9)
    assert leadership.holds()
    clocks.pass_by(0.2)
    assert not leadership.holds()


def test_every_renewal_prolongs_it(leadership: Leadership, clocks: Clocks) -> None:
    for _ in range(10):
        leadership.seen(clocks.lease())
        clocks.pass_by(2)
    assert leadership.holds()


def test_a_renewal_that_arrives_late_counts_from_when_it_was_made(leadership: Leadership, clocks: Clocks) -> None:
    """After SIGCONT a process first reads the backlog of its sockets."""
    leadership.seen(clocks.lease(age=30))
    assert not leadership.holds()
    leadership.seen(clocks.lease(age=8))
    assert leadership.holds()
    clocks.pass_by(3)
    assert not leadership.holds()


def test_a_wall_clock_that_is_put_back_prolongs_nothing(leadership: Leadership, clocks: Clocks) -> None:
    lease = clocks.lease()
    clocks.wall -= 3600
    leadership.seen(lease)
    clocks.now += 10.1
    assert not leadership.holds()


@pytest.mark.parametrize("lease", [None, Lease(THEIRS, 1_800_000_000.0, 15.0), Lease("", 1_800_000_000.0, 1.0)])
def test_it_ends_at_once_when_the_lease_goes_to_another_or_to_nobody(
    leadership: Leadership, clocks: Clocks, lease: Lease | None
) -> None:
    leadership.seen(clocks.lease())
    leadership.seen(lease)
    assert not leadership.holds()


async def _told(leadership: Leadership, clocks: Clocks) -> None:
    waiting = asyncio.create_task(leadership.change(held=False))
    await asyncio.sleep(0)
    leadership.seen(clocks.lease(THEIRS))
    await asyncio.sleep(0)
    assert not waiting.done()
    leadership.seen(clocks.lease())
    await waiting
    losing = asyncio.create_task(leadership.change(held=True))
    await asyncio.sleep(0)
    clocks.pass_by(11)
    leadership.seen(clocks.lease(age=11))
    await losing
    assert not leadership.holds()


def test_both_changes_wake_whoever_waits_for_them(leadership: Leadership, clocks: Clocks) -> None:
    asyncio.run(_told(leadership, clocks))


async def _run_out() -> bool:
    leadership = Leadership("us")
    leadership.seen(Lease("us_1", 0.0, 15.0))
    assert not leadership.holds(), "that renewal is decades old"
    short = Leadership("us", wall=lambda: 0.0)
    short.seen(Lease("us_1", 0.0, 0.03))
    assert short.holds()
    await short.change(held=True)
    return short.holds()


def test_running_out_is_noticed_without_any_news() -> None:
    assert asyncio.run(_run_out()) is False


@pytest.mark.parametrize("name", ["", "Muster", "a/b", "-a", "a" * 300])
def test_a_name_that_no_lease_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        LeaderElection(enabled=True, name=name)
