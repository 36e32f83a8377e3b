"""The core hears of the right jobs while kinds come and go, and while objects that complete their pods change."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from extender.core.events import DeviceClassGone, DeviceClassSeen, GroupGone, GroupSeen, JobSeen, QueueGone, QueueSeen
from extender.kube import following
from extender.kube.kinds.completion import Completion
from extender.kube.kinds.job import JOB
from extender.kube.queues.resources import VOLCANO_QUEUES
from extender.kube.resources import DEVICE_CLASSES, DEVICES, GROUPS_OF_OTHERS, KAI_GROUPS, SLICES
from policies.model import Dialect, GroupKey
from policies.model.queues import VolcanoQueue
from tests.kube.fake_api import Answer, FakeApi, refused, watch
from tests.kube.kinds.following import (
    JOBS,
    LIMITS,
    PRIORITIES,
    RUNTIMES,
    Followed,
    change,
    followed,
    job,
    listed,
    served,
)
from tests.kube.kinds.jobs import stored
from tests.kube.kinds.test_own import MANIFEST, kind
from tests.running import eventually


def test_managed_jobs_are_told_and_others_are_not() -> None:
    child = job("child", ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "controller": True}])
    alone = job("alone", annotations={"muster.dev/gang": "false"})
    elsewhere = job("elsewhere")
    elsewhere["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"

    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a"), job("b", labels={}), child, elsewhere, alone))
        lines = [change("ADDED", job("c", labels={"muster.dev/gang": "true"})), change("ADDED", job("end"))]
        api.on("WATCH", JOB.path, watch(*lines, stays_open=True))

    async def check(watched: Followed) -> None:
        await eventually(lambda: "+job-end" in watched.told)
        assert watched.told == ["+job-a", "+job-c", "+job-end"]

    followed(setup, check)


def test_a_job_that_is_no_longer_managed_is_gone_for_the_core() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a")))
        lines = [change("MODIFIED", job("a", labels={})), change("DELETED", job("a", labels={}))]
        api.on("WATCH", JOB.path, watch(*lines, change("ADDED", job("end")), stays_open=True))

    async def check(watched: Followed) -> None:
        await eventually(lambda: "+job-end" in watched.told)
        assert watched.told == ["+job-a", "-job-a", "+job-end"]

    followed(setup, check)


def test_a_job_whose_gang_gets_another_name_is_gone_under_the_first() -> None:
    renamed = job("a")
    renamed["spec"]["template"]["metadata"]["annotations"] = {"muster.dev/pod-group": "train"}

    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a")))
        api.on("WATCH", JOB.path, watch(change("MODIFIED", renamed), stays_open=True))

    async def check(watched: Followed) -> None:
        await eventually(lambda: "+train" in watched.told)
        assert watched.told == ["+job-a", "-job-a", "+train"]

    followed(setup, check)


def test_a_template_that_cannot_be_read_is_a_problem_and_stops_nothing() -> None:
    broken = job("broken")
    broken["spec"]["template"] = "none"

    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(broken, job("a")))

    async def check(watched: Followed) -> None:
        assert watched.told == ["+job-broken", "+job-a"]
        problems = [event.job.problem for event in watched.events if isinstance(event, JobSeen)]
        assert problems == ["it has no template", ""]

    followed(setup, check)


def test_a_kind_that_is_not_served_is_not_asked_for_and_one_that_comes_is_followed(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served(("apps", "v1", "deployments")), served(), served(JOBS))
        api.on("GET", JOB.path, listed(job("a")))

    async def check(watched: Followed) -> None:
        assert (watched.told, watched.asked(JOB.path), "jobs" in watched.sight.ages()) == ([], 0, False)
        await eventually(lambda: watched.told == ["+job-a"])
        assert watched.sight.ages()["jobs"] < 20
        watched.api.on("GET", "/apis", served())
        await eventually(lambda: watched.told == ["+job-a", "-job-a"])
        assert "jobs" not in watched.sight.ages(), "of a kind that is gone nothing can be heard"
        watched.api.on("GET", "/apis", served(JOBS))
        await eventually(lambda: watched.told == ["+job-a", "-job-a", "+job-a"])

    followed(setup, check)


def test_jobs_of_a_kind_that_is_gone_are_gone_also_if_what_completes_pods_changes_with_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)

    async def check(watched: Followed) -> None:
        watched.reader.completion = Completion({"team": ()})
        watched.api.on("GET", "/apis", served())
        await eventually(lambda: watched.told == ["+job-a", "-job-a"])

    followed(lambda api: api.on("GET", JOB.path, listed(job("a"))), check)


def test_a_kind_of_the_settings_is_followed_if_it_is_served_and_the_jobs_that_it_makes_are_its_own() -> None:
    maker = {"apiVersion": "science.example.com/v1", "kind": "Simulation", "name": "ocean", "controller": True}

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served(JOBS, ("science.example.com", "v1", "simulations")))
        api.on("GET", JOB.path, listed(job("a"), job("b", ownerReferences=[maker])))
        api.on("GET", kind().path, listed(stored(MANIFEST)))
        api.on("WATCH", kind().path, watch(stays_open=True))

    async def check(watched: Followed) -> None:
        assert sorted(watched.told) == ["+job-a", "+simulation-ocean"]

    async def check_absent(watched: Followed) -> None:
        assert (sorted(watched.told), watched.asked(kind().path)) == (["+job-a"], 0)

    def setup_absent(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a")))

    followed(setup, check, kind())
    followed(setup_absent, check_absent, kind())


def test_an_api_server_that_cannot_be_asked_is_asked_again() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", refused(503), refused(500), Answer(body=[]), served(JOBS))
        api.on("GET", JOB.path, listed(job("a")))

    async def check(watched: Followed) -> None:
        assert watched.told == ["+job-a"]

    followed(setup, check)


def test_a_kind_that_may_not_be_read_does_not_keep_muster_from_acting() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, refused(403, "Forbidden"))

    async def check(watched: Followed) -> None:
        assert watched.told == []

    followed(setup, check)


def test_jobs_are_read_with_what_completes_their_pods_and_again_when_that_changes() -> None:
    obj = job("a")
    spec = obj["spec"]["template"]["spec"]
    spec |= {"runtimeClassName": "kata", "priorityClassName": "high"}
    kata = {"metadata": {"name": "kata", "uid": "k"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    high = {"metadata": {"name": "high", "uid": "h"}, "value": 7}
    defaults = {
        "metadata": {"name": "x", "namespace": "team", "uid": "x", "resourceVersion": "3"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]},
    }

    def setup(api: FakeApi) -> None:
        api.on("GET", RUNTIMES, listed(kata))
        api.on("GET", PRIORITIES, listed(high))
        api.on("WATCH", LIMITS, watch(change("ADDED", defaults), stays_open=True))
        api.on("GET", JOB.path, listed(obj))

    async def check(watched: Followed) -> None:
        def memory() -> int:
            return dict(watched.last().podsets.podsets[0].template.requests).get("memory", 0)

        await eventually(lambda: memory() == 2**30)
        template = watched.last().podsets.podsets[0].template
        assert (dict(template.requests)["cpu"], template.priority) == (2250, 7)
        assert watched.reader.completion.limits.keys() == {"team"}

    followed(setup, check)


def test_classes_that_may_not_be_read_are_no_problem_and_those_that_do_not_exist_are() -> None:
    obj = job("a")
    obj["spec"]["template"]["spec"] |= {"runtimeClassName": "kata", "priorityClassName": "high"}
    for denied, problem in (
        ({RUNTIMES, PRIORITIES}, ""),
        ({PRIORITIES}, "its RuntimeClass kata does not exist"),
        ({RUNTIMES}, "its PriorityClass high does not exist"),
    ):

        def setup(api: FakeApi, denied: set[str] = denied) -> None:
            for path in denied:
                api.on("GET", path, refused(403, "Forbidden"))
            api.on("GET", JOB.path, listed(obj))

        async def check(watched: Followed, problem: str = problem) -> None:
            assert watched.last().problem == problem

        followed(setup, check)


def test_a_new_core_is_told_of_all_jobs() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a"), job("b")))

    async def check(watched: Followed) -> None:
        watched.events.clear()
        watched.follower.repeat()
        assert watched.told == ["+job-a", "+job-b"]

    followed(setup, check)


def test_podgroups_of_other_projects_are_followed_where_their_kinds_are_served_alone(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)
    group = {"metadata": {"name": "train", "namespace": "team", "uid": "u"}, "spec": {"minMember": 2}}
    volcano, *others = (resource.path for resource in GROUPS_OF_OTHERS)

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served(("scheduling.volcano.sh", "v1beta1", "podgroups")))
        api.on("GET", volcano, listed(group))
        api.on("WATCH", volcano, watch(stays_open=True))

    async def check(seen: Followed) -> None:
        assert [event.group.dialect for event in seen.events if isinstance(event, GroupSeen)] == [Dialect.VOLCANO]
        assert not any(map(seen.asked, (JOB.path, *others)))
        assert "podgroups.scheduling.volcano.sh" in seen.sight.ages()
        seen.api.on("GET", "/apis", served())
        await eventually(lambda: GroupGone(GroupKey("team", "train"), "u", Dialect.VOLCANO) in seen.events)

    followed(setup, check)


def test_queues_of_volcano_are_followed_while_they_are_served_and_may_be_read(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)
    path, queue = VOLCANO_QUEUES.path, {"metadata": {"name": "research", "uid": "u"}, "spec": {"weight": 2}}
    research = VolcanoQueue("research", Fraction(2))

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served())
        api.on("GET", path, refused(403))

    async def check(seen: Followed) -> None:
        assert not seen.asked(path), "the kind is not there"
        seen.api.on("GET", "/apis", served(("scheduling.volcano.sh", "v1beta1", "queues")))
        await eventually(lambda: seen.asked(path) > 0)
        assert not any(isinstance(event, QueueSeen) for event in seen.events)
        seen.api.on("GET", "/apis", served())
        await eventually(lambda: "queues.scheduling.volcano.sh" not in seen.sight.ages())
        seen.api.on("GET", path, listed(queue))
        seen.api.on("WATCH", path, watch(stays_open=True))
        seen.api.on("GET", "/apis", served(("scheduling.volcano.sh", "v1beta1", "queues")))
        await eventually(lambda: QueueSeen(research) in seen.events)
        seen.api.on("GET", "/apis", served())
        await eventually(lambda: QueueGone(research) in seen.events)

    followed(setup, check)


def test_without_the_right_to_read_them_muster_does_without() -> None:
    kai = KAI_GROUPS.path

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served(("scheduling.run.ai", "v2alpha2", "podgroups")))
        api.on("GET", kai, refused(403))

    async def check(seen: Followed) -> None:
        assert seen.asked(kai) >= 1

    followed(setup, check)


def test_device_classes_are_followed_while_they_are_served(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)
    path = DEVICE_CLASSES.path
    gpus = {"metadata": {"name": "gpus", "uid": "u"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served())
        api.on("GET", path, listed(gpus))
        api.on("WATCH", path, watch(stays_open=True))

    async def check(seen: Followed) -> None:
        assert not seen.asked(path), "the kind is not there"
        seen.api.on("GET", "/apis", served(("resource.k8s.io", "v1", "deviceclasses")))
        await eventually(lambda: DeviceClassSeen("gpus", "nvidia.com/gpu") in seen.events)
        seen.api.on("GET", "/apis", served())
        await eventually(lambda: DeviceClassGone("gpus") in seen.events)

    followed(setup, check)


def test_devices_and_their_claims_are_followed_while_there_is_a_class(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.05)
    kinds = [(*resource.kind[0].partition("/")[::2], resource.kind[1]) for resource in DEVICES]
    gpus = {"metadata": {"name": "gpus", "uid": "u", "resourceVersion": "2"}, "spec": {}}

    def setup(api: FakeApi) -> None:
        api.on("GET", "/apis", served(*kinds))
        for resource in DEVICES:
            api.on("GET", resource.path, listed())
            api.on("WATCH", resource.path, Answer(410) if resource is DEVICE_CLASSES else watch(stays_open=True))

    async def check(seen: Followed) -> None:
        assert seen.asked(DEVICE_CLASSES.path), "whoever claims a device names a class"
        assert not any(seen.asked(resource.path) for resource in DEVICES if resource is not DEVICE_CLASSES)
        seen.api.on("GET", DEVICE_CLASSES.path, listed(gpus))
        await eventually(lambda: all(seen.asked(resource.path) for resource in DEVICES))
        seen.api.on("GET", DEVICE_CLASSES.path, listed())
        await eventually(lambda: DeviceClassGone("gpus") in seen.events)
        await eventually(lambda: SLICES.name not in seen.sight.ages())

    followed(setup, check)
