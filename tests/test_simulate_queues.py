"""Queues in `muster simulate`: Kueue's own objects, virtual clusters of a trace, and how fairly GPUs were shared."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import yaml

from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.course import Life, Run
from extender.simulation.replay.queueing import Partition, Queueing, Stake, nominal_quotas, virtual_clusters
from extender.simulation.replay.shape import InputError, nodes_of, pools_from
from extender.simulation.report.fairness import entitlements, fairness, jain
from policies.model.queues import ClusterQueue
from tests.test_simulate import figures, simulate

TUTORIAL = Path(__file__).parent.parent / "manifests" / "examples" / "queues" / "tutorial.yaml"
LABELS = "labels: {cloud.google.com/gke-gpu: nvidia-tesla-a100}"
JOBS = """
cluster: [{name: a100, nodes: 8, gpus: 8, LABELS}]
jobs:
  - {name: train, pods: 4, gpus: 8, duration_s: 600, queue: kueue-gang-queue, copies: 2}
""".replace("LABELS", LABELS)
TRACE = "vc,submission_time,duration,num_gpu\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_tutorials_objects_let_one_job_run_after_the_other(tmp_path: Path) -> None:
    scenario = write(tmp_path / "jobs.yaml", JOBS)
    by_scheduler = figures(tmp_path, "--scenario", scenario, "--queues", TUTORIAL)
    assert list(by_scheduler) == ["fifo", "fifo-quota", "muster-no-queues", "muster"]
    latest = {name: result["fairness"]["queues"][0]["max_s"] for name, result in by_scheduler.items()}
    expected = {"fifo": 0, "fifo-quota": 630, "muster-no-queues": 0, "muster": 630}
    assert latest == pytest.approx(expected, abs=1)
    (queue,) = by_scheduler["muster"]["fairness"]["queues"]
    assert (queue["queue"], queue["nominal"], queue["jobs"]) == ("heavy-ml-cluster-queue", 32, 2)
    assert (queue["used"], queue["short"]) == (pytest.approx(11.2), pytest.approx(0, abs=0.01))


@pytest.mark.parametrize("by_usage", [False, True])
def test_a_job_beyond_all_quota_never_starts_and_the_simulation_ends(tmp_path: Path, by_usage: bool) -> None:
    """The core may have work without end: it samples past usage while a workload waits."""
    objects = TUTORIAL.read_text().replace("nominalQuota: 32", "nominalQuota: 31")
    if by_usage:
        scope = "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}\n"
        objects = objects.replace("  resourceGroups:\n", f"{scope}  resourceGroups:\n")
    config = "admission_fair_sharing: {usage_half_life_time_s: 3600, resource_weights: {nvidia.com/gpu: 1}}\n"
    jobs = JOBS + "  - {name: small, submit_s: 60, pods: 1, gpus: 8, duration_s: 600, queue: kueue-gang-queue}\n"
    queues, scenario = write(tmp_path / "queues.yaml", objects), write(tmp_path / "jobs.yaml", jobs)
    settings = write(tmp_path / "muster.yaml", config)
    by_scheduler = figures(tmp_path, "--scenario", scenario, "--queues", queues, "--config", settings)
    muster = by_scheduler["muster"]
    assert (muster["jobs"], muster["completed"], muster["never_started"]) == (3, 1, 2)
    assert muster["observed_s"] == pytest.approx(60 + 30 + 600, abs=1), "nothing happened after the small one had ended"
    assert list(muster["reasons"]) == ["train-0", "train-1"]
    assert "the queue can have 31 nvidia.com/gpu at most" in muster["reasons"]["train-0"]
    _, output = simulate(
        "--scenario", scenario, "--queues", queues, "--scheduler", "muster", "--html", tmp_path / "page"
    )
    for text in (output, (tmp_path / "page").read_text()):
        assert "Never started with muster" in text
        assert "the queue can have 31 nvidia.com/gpu at most" in " ".join(text.split())


def test_queue_objects_may_be_a_list_as_kubectl_prints_several(tmp_path: Path) -> None:
    items = "".join(f"- {json.dumps(document)}\n" for document in yaml.safe_load_all(TUTORIAL.read_text()))
    queues = write(tmp_path / "queues.yaml", f"apiVersion: v1\nkind: List\nitems:\n{items}")
    scenario = write(tmp_path / "jobs.yaml", JOBS)
    (queue,) = figures(tmp_path, "--scenario", scenario, "--queues", queues)["muster"]["fairness"]["queues"]
    assert (queue["queue"], queue["nominal"], queue["jobs"]) == ("heavy-ml-cluster-queue", 32, 2)
    code, output = simulate("--scenario", scenario, "--queues", write(queues, "kind: List\nitems: [{}]\n"))
    assert (code, "document 1, item 1: it is no object with apiVersion and kind" in output) == (2, True), output


@pytest.mark.parametrize("text", ["", "---\n# nothing\n", "apiVersion: v1\nkind: List\nitems: []\n"])
def test_a_file_without_queue_objects_is_refused(tmp_path: Path, text: str) -> None:
    scenario = write(tmp_path / "jobs.yaml", JOBS)
    code, output = simulate("--scenario", scenario, "--queues", write(tmp_path / "none.yaml", text))
    assert (code, "none.yaml: there is no object in it" in output) == (2, True), output


def test_what_the_author_of_a_queue_may_not_have_meant_is_told(tmp_path: Path) -> None:
    """Unusable objects are reported, too, although no job names them."""
    other = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: other}\n"
    other += "spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: gone}]}], namespaceSelector: {}}\n"
    objects = (
        TUTORIAL.read_text().replace("nominalQuota: 32", "nominalQuota: 32\n              borowingLimit: 8") + other
    )
    scenario, queues = write(tmp_path / "jobs.yaml", JOBS), write(tmp_path / "queues.yaml", objects)
    code, output = simulate("--scenario", scenario, "--queues", queues)
    output = " ".join(output.split())
    assert code == 0, output
    title = "warning: ClusterQueue heavy-ml-cluster-queue:"
    assert f"{title} cpu, memory: covered, and no flavor says a quota: there is no limit" in output
    assert f"{title} nothing is called spec.resourceGroups.flavors.resources.borowingLimit" in output
    assert "ClusterQueue other cannot be used: there is no ResourceFlavor gone" in output


def test_queues_that_count_for_nothing_are_told(tmp_path: Path) -> None:
    named = write(tmp_path / "named.yaml", JOBS)
    code, output = simulate("--scenario", named, "--scheduler", "muster")
    assert code == 0, output
    assert "the jobs name queues, and no --queues is given: they count for nothing" in output
    free = write(tmp_path / "free.yaml", JOBS.replace("queue: kueue-gang-queue, ", ""))
    code, output = simulate("--scenario", free, "--scheduler", "muster", "--queues", TUTORIAL)
    assert code == 0, output
    assert "no job names a queue: the quota of --queues counts for nothing" in output


def test_priority_classes_and_namespaces_count(tmp_path: Path) -> None:
    objects = TUTORIAL.read_text() + "---\n".join(
        [
            "",
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\nvalue: 100\n",
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n"
            "metadata: {name: lq, namespace: team}\nspec: {clusterQueue: heavy-ml-cluster-queue}\n",
        ]
    )
    jobs = JOBS.replace("copies: 2", "copies: 3") + (
        "  - {name: late, submit_s: 1, pods: 4, gpus: 8, duration_s: 60, queue: lq, namespace: team, "
        "priority_class: urgent}\n"
    )
    queues, scenario = write(tmp_path / "queues.yaml", objects), write(tmp_path / "jobs.yaml", jobs)
    by_scheduler = figures(tmp_path, "--scenario", scenario, "--queues", queues, "--scheduler", "muster")
    (queue,) = by_scheduler["muster"]["fairness"]["queues"]
    assert (queue["jobs"], queue["max_s"]) == (4, pytest.approx(630 + 90 + 630, abs=1))
    assert queue["p50_s"] == pytest.approx(629, abs=1), "the urgent one is second"


def test_queues_of_volcano_are_those_of_the_jobs_that_name_them(tmp_path: Path) -> None:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: kueue-gang-queue}\n"
    queues = write(tmp_path / "queues.yaml", text + "spec: {capability: {nvidia.com/gpu: 32}}\n")
    scenario = write(tmp_path / "jobs.yaml", JOBS)
    by_scheduler = figures(tmp_path, "--scenario", scenario, "--queues", queues, "--scheduler", "muster")
    (queue,) = by_scheduler["muster"]["fairness"]["queues"]
    assert (queue["queue"], queue["jobs"]) == ("volcano/kueue-gang-queue", 2)
    assert queue["max_s"] == pytest.approx(630, abs=1)


def test_a_queue_of_volcano_is_a_partition_of_what_it_deserves_by_weight(tmp_path: Path) -> None:
    named = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: %s}\nspec: {weight: 1}\n"
    queues = write(tmp_path / "queues.yaml", "---\n".join(named % name for name in ("kueue-gang-queue", "other")))
    scenario = write(tmp_path / "jobs.yaml", JOBS)
    by_scheduler = figures(tmp_path, "--scenario", scenario, "--queues", queues, "--scheduler", "fifo-quota")
    queue = next(row for row in by_scheduler["fifo-quota"]["fairness"]["queues"] if row["jobs"])
    assert (queue["nominal"], queue["max_s"]) == (32, pytest.approx(630, abs=1))


@pytest.mark.parametrize(
    ("queues", "jobs", "said"),
    [
        ("- a", JOBS, "document 1: it is no object with apiVersion and kind"),
        ("a: [", JOBS, "this is not YAML"),
        ("kind: Pod\nspec: {a: 1, a: 2}\n", JOBS, "queues.yaml: a is there twice, line 2"),
        ("apiVersion: v1\nkind: [Pod]\n", JOBS, "document 1: a \"['Pod']\" of 'v1' is not read here"),
        ("apiVersion: v1\nkind: Pod\n", JOBS, "a 'Pod' of 'v1' is not read here, but Topology, ResourceFlavor, Cohort"),
        ("apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\n", JOBS, "document 1: the Cohort has no name"),
        (TUTORIAL.read_text(), JOBS.replace("kueue-gang-queue", "other"), "there is no LocalQueue other in namespace"),
        (TUTORIAL.read_text(), JOBS.replace(LABELS, "labels: {a: b}"), "no node of the cluster has the labels of"),
        (TUTORIAL.read_text() + "---\n" + TUTORIAL.read_text(), JOBS, "two objects are ResourceFlavor a100-gpu-80gb"),
        (TUTORIAL.read_text().replace("nominalQuota: 32", "nominalQuota: -1"), JOBS, "must not be negative"),
        (
            TUTORIAL.read_text(),
            JOBS.replace("copies: 2", "priority_class: x"),
            "job train: there is no WorkloadPriorityClass x",
        ),
    ],
)
def test_objects_that_cannot_be_used_are_said_with_their_reason(
    tmp_path: Path, queues: str, jobs: str, said: str
) -> None:
    files = write(tmp_path / "queues.yaml", queues), write(tmp_path / "jobs.yaml", jobs)
    code, output = simulate("--scenario", files[1], "--queues", files[0])
    assert code == 2
    assert said in " ".join(output.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--borrowing-limit", "4"), "--borrowing-limit goes with --queue-column"),
        (("--queues", TUTORIAL), "with --queues the jobs of a trace need --queue-column"),
        (("--queue-column", "team"), "the trace has no column team"),
    ],
)
def test_options_of_queues_that_mean_nothing_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    trace = write(tmp_path / "trace.csv", TRACE + "a,0,60,8\n")
    code, output = simulate("--trace", trace, "--cluster", "1 node x 8 GPUs", *options)
    assert code == 2
    assert said in " ".join(output.split())


def crowded() -> str:
    """Two virtual clusters with as much work: the jobs of one come first."""
    rows = [f"One VC,{at},3600,8" for at in range(8)] + [f"two,{10 + at},3600,8" for at in range(8)]
    return TRACE + "\n".join(rows) + "\n"


def test_virtual_clusters_share_a_cluster_by_what_they_ask_for(tmp_path: Path) -> None:
    trace = write(tmp_path / "trace.csv", crowded())
    options = ("--trace", trace, "--cluster", "4 nodes x 8 GPUs", "--queue-column", "vc")
    by_scheduler = figures(tmp_path, *options, "--borrowing-limit", "0")
    for name, fair in (("fifo", False), ("muster-no-queues", False), ("fifo-quota", True), ("muster", True)):
        queues = by_scheduler[name]["fairness"]["queues"]
        assert [(queue["queue"], queue["nominal"], queue["jobs"]) for queue in queues] == [
            ("one-vc", 16, 8),
            ("two", 16, 8),
        ]
        assert (by_scheduler[name]["fairness"]["jain"] > 0.99) == fair, name
        assert (queues[1]["p50_s"] < 5000) == fair, name
        assert len(queues[0]["curve"]) == 240
    code, output = simulate(*options, "--html", tmp_path / "page.html")
    assert code == 0
    assert "Jain's index" in output
    page = (tmp_path / "page.html").read_text()
    assert 'aria-label="Shares with muster"' in page
    assert "Waiting by queue" in page


def test_two_virtual_clusters_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    options = ("--cluster", "4 nodes x 8 GPUs", "--queue-column", "vc", "--scheduler", "muster")
    trace = write(tmp_path / "trace.csv", TRACE + "Team A,0,60,8\nTeam A ,1,60,8\n")
    assert simulate("--trace", trace, *options)[0] == 0
    write(trace, TRACE + "Team A,0,60,8\nteam_a,1,60,8\n")
    code, output = simulate("--trace", trace, *options)
    assert code == 2
    assert "line 3 of the trace: the queues 'Team A' and 'team_a' would both be called team-a" in " ".join(
        output.split()
    )


def test_idle_quota_is_lent_unless_a_limit_says_otherwise(tmp_path: Path) -> None:
    rows = [f"a,{at},3600,8" for at in range(4)] + ["b,20000,3600,16"]
    trace = write(tmp_path / "trace.csv", TRACE + "\n".join(rows) + "\n")
    options = ("--trace", trace, "--cluster", "4 nodes x 8 GPUs", "--queue-column", "vc", "--scheduler", "muster")
    for limit, longest in (((), 0), (("--borrowing-limit", "0"), 3630)):
        (first, _) = figures(tmp_path, *options, *limit)["muster"]["fairness"]["queues"]
        assert first["nominal"] == 16 if limit else first["nominal"] < 32
        assert first["max_s"] == pytest.approx(longest, abs=5)


def test_quota_follows_the_gpu_time_and_every_job_fits_into_that_of_its_queue() -> None:
    chance = Random(1)  # noqa: S311
    for _ in range(300):
        jobs = [
            Arrival(f"j{at}", 0.0, chance.randint(1, 4), 8, chance.uniform(1, 1e5), queue=f"q{chance.randrange(8)}")
            for at in range(40)
        ]
        quotas = nominal_quotas(jobs, 512)
        assert sum(quotas.values()) == 512
        assert all(quotas[arrival.queue] >= arrival.all_gpus for arrival in jobs)
        gpu_time = {
            name: sum(arrival.all_gpus * arrival.run_s for arrival in jobs if arrival.queue == name) for name in quotas
        }
        least = {name: max(arrival.all_gpus for arrival in jobs if arrival.queue == name) for name in quotas}
        above = [name for name in quotas if quotas[name] > least[name] + 1]
        rates = [quotas[name] / gpu_time[name] for name in above]
        slack = max(1 / gpu_time[name] for name in above) * 2
        assert max(rates) - min(rates) <= slack
    with pytest.raises(InputError, match="the largest jobs of the 8 virtual clusters need"):
        nominal_quotas(jobs, 16)


def test_what_is_lent_is_divided_among_virtual_clusters_by_their_quota() -> None:
    jobs = [Arrival(f"j{at}", 0.0, 1, 8, 100.0 * at, queue=f"q{at}") for at in range(1, 5)]
    seen = [event.object for event in virtual_clusters(jobs, 512, None)]
    assert {queue.name: queue.weight for queue in seen if isinstance(queue, ClusterQueue)} == nominal_quotas(jobs, 512)


def test_jains_index_is_that_of_its_paper() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0, 3.0]) == pytest.approx(16 / 20)
    assert jain([0.0, 0.0]) == 1.0


def test_entitlements_are_what_filling_up_in_small_steps_gives() -> None:
    chance = Random(2)  # noqa: S311
    for _ in range(200):
        stakes = {f"q{at}": Stake(chance.randrange(30), chance.randint(5, 60)) for at in range(chance.randint(1, 6))}
        demand = {name: chance.choice((0, chance.randint(1, 80))) for name in stakes}
        gpus = chance.randint(10, 100)
        entitled = entitlements(Partition(gpus, stakes), demand)
        step, filled = 0.01, dict.fromkeys((name for name in stakes if demand[name]), 0.0)
        most = {name: min(demand[name], stakes[name].most) for name in filled}
        while (growing := [name for name in filled if filled[name] < most[name]]) and sum(filled.values()) < gpus:
            for name in growing:
                filled[name] = min(most[name], filled[name] + step * max(1, stakes[name].nominal))
        assert entitled.keys() == filled.keys()
        assert all(entitled[name] == pytest.approx(filled[name], abs=2.0) for name in entitled)
        assert sum(entitled.values()) <= gpus + 1e-6


def test_shares_of_a_run_are_what_one_counts_by_hand() -> None:
    """32 GPUs, half for each. The first queue alone has all for 100 s, and the other waits for the next 100 s."""
    jobs = [Arrival("early", 0.0, 4, 8, 200.0, queue="a"), Arrival("late", 100.0, 2, 8, 100.0, queue="b")]
    halves = [Arrival(name, 0.0, 2, 8, 100.0, queue=name) for name in "ab"]
    queueing = Queueing(virtual_clusters(halves, 32, None))
    queueing.check(jobs, nodes_of(pools_from("4 nodes x 8 GPUs")))
    early = Life(jobs[0], 0, whole_s=0.0, ended_s=200.0, runs=[Run(0.0, 200.0, 32)])
    late = Life(jobs[1], 1, whole_s=200.0, ended_s=300.0, runs=[Run(200.0, 300.0, 16)])
    report = fairness([early, late], 300.0, queueing)
    a, b = report.queues
    gpu_s = [3600 * amount for amount in (a.used, a.short, b.used, b.entitled, b.short)]
    assert gpu_s == pytest.approx([6400, 0, 1600, 3200, 1600])
    assert report.jain == pytest.approx(0.5), "while both have demand one of them has all"
    assert (b.p50_s, b.max_s, b.never_started) == (100.0, 100.0, 0)
    assert sum(point[0] for point in a.curve) * 300 / 240 == pytest.approx(6400, rel=0.01)
