"""`muster simulate`: the same jobs under several schedulers, and the errors about unusable input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extender.cli.simulate import main
from extender.simulation.replay.scenario import read_scenario
from extender.simulation.replay.shape import nodes_of
from policies.model import CLIQUE

TWO_JOBS = Path(__file__).parent.parent / "docs" / "examples" / "two-jobs.yaml"
TRACE = "cluster,submission_time,duration,num_gpu\n"


def simulate(*args: str | Path) -> tuple[int, str]:
    """Exit code, and everything that was said."""
    ended = CliRunner().invoke(main, [str(arg) for arg in args])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, ended.output


def figures(tmp_path: Path, *args: str | Path) -> dict[str, dict[str, Any]]:
    """The figures in the JSON, by scheduler."""
    code, output = simulate(*args, "--json", tmp_path / "out.json")
    assert code == 0, output
    report = json.loads((tmp_path / "out.json").read_text())
    return {scheduler["scheduler"]: scheduler for scheduler in report["schedulers"]}


def test_the_two_jobs_of_the_demo_end_as_in_the_demo(tmp_path: Path) -> None:
    by_scheduler = figures(tmp_path, "--scenario", TWO_JOBS)
    alone, muster = by_scheduler["kube-scheduler"], by_scheduler["muster"]
    assert (alone["completed"], muster["completed"]) == (0, 2)
    assert alone["held"] == pytest.approx(32.0)
    assert (alone["held_in_vain"], alone["rendezvous"]) == (pytest.approx(32.0), 0)
    assert alone["makespan_s"] is None
    assert muster["held"] == pytest.approx(0.0, abs=0.01)
    assert muster["productive"] == pytest.approx(31.11, abs=0.01)
    assert muster["makespan_s"] == pytest.approx(59 * 60, abs=60)
    _, output = simulate("--scenario", TWO_JOBS)
    assert "With muster both jobs start and no GPU is held without work." in " ".join(output.split())


def test_the_page_has_a_picture_for_everybody_and_fetches_nothing(tmp_path: Path) -> None:
    code, output = simulate(
        "--scenario", TWO_JOBS, "--cluster", "4 nodes x 8 GPUs in cliques of 2", "--html", tmp_path / "p.html"
    )
    assert code == 0, output
    page = (tmp_path / "p.html").read_text()
    for picture in (
        "kube-scheduler",
        "fifo",
        "muster",
        "ideal",
        "Waiting time by gang size",
        "Domains spanned",
        "Cost",
    ):
        assert f'aria-label="{picture}"' in page
    assert "http" not in page
    assert "<script" not in page


def test_a_trace_is_cut_scaled_and_made_into_gangs(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = ["a,100,3600,16", "b,0,10,1", "a,200,3600,4", "a,900,3600,0", "a,4100,3600,20", "a,9000,3600,8"]
    trace.write_text(TRACE + "\n".join(rows))
    args = ("--trace", trace, "--trace-cluster", "a", "--jobs", "3", "--cluster", "3 nodes x 8 GPUs", "--load", "0.5")
    muster = figures(tmp_path, *args)["muster"]
    assert [(waits["most_gpus"], waits["jobs"]) for waits in muster["waits"]] == [(4, 1), (16, 1), (32, 1)], (
        "20 GPUs: 3 x 8"
    )
    asked_s = 3600 * (16 + 4 + 24)
    assert muster["makespan_s"] == pytest.approx(asked_s / (24 * 0.5) + 30 + 3600, abs=1), "the last comes at the end"
    assert muster["productive"] == pytest.approx(asked_s / 3600)


def test_small_jobs_pass_a_large_one_except_in_a_strict_queue(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        """
cluster: 2 nodes x 8 GPUs
start_s: 0
jobs:
  - {name: running, pods: 1, gpus: 8, duration_s: 1000}
  - {name: large, submit_s: 10, pods: 2, gpus: 8, duration_s: 100}
  - {name: small, submit_s: 20, pods: 1, gpus: 1, duration_s: 100}
"""
    )
    by_scheduler = figures(tmp_path, "--scenario", scenario)
    small = {name: result["waits"][0]["median_s"] for name, result in by_scheduler.items()}
    assert small["fifo"] == pytest.approx(1080)
    assert small["muster"] == pytest.approx(0, abs=1)
    assert small["ideal"] == 0


@pytest.mark.parametrize(
    "cluster",
    ["gke-a3=2, 2 nodes of dgx-b200", "gke-tpu=8", "EKS-P6E=8", "vm-cpu=3, oke-mi300x=4"],
)
def test_jobs_start_on_nodes_of_platforms(tmp_path: Path, cluster: str) -> None:
    jobs = "until_s: 3600\njobs:\n  - {name: train, pods: 4, gpus: 4, duration_s: 600}\n"
    (tmp_path / "jobs.yaml").write_text(jobs)
    by_scheduler = figures(tmp_path, "--scenario", tmp_path / "jobs.yaml", "--cluster", cluster)
    assert {name: result["completed"] for name, result in by_scheduler.items()} == dict.fromkeys(by_scheduler, 1)


def test_pools_of_a_scenario_may_be_of_a_platform(tmp_path: Path) -> None:
    pools = "[{platform: gb200, nodes: 36, labels: {team: a}}, {name: other, platform: gb200, nodes: 2}]"
    text = f"cluster: {pools}\njobs:\n  - {{name: train, pods: 18, gpus: 4, duration_s: 600}}\n"
    (tmp_path / "jobs.yaml").write_text(text)
    code, output = simulate("--scenario", tmp_path / "jobs.yaml", "--scheduler", "muster")
    assert code == 0, output
    assert "36 gb200 nodes x 4 GPUs, 2 gb200 nodes x 4 GPUs" in " ".join(output.split())
    nodes = nodes_of(read_scenario(text, "jobs", {}).pools)
    assert [(node.name, node.labels.get("team")) for node in nodes[35:]] == [
        ("gb200-35", "a"), ("other-0", None), ("other-1", None),
    ]  # fmt: skip
    assert len({node.labels[CLIQUE] for node in nodes}) == 2
    assert dict(nodes[0].allocatable)["cpu"] == 144_000


def test_when_one_job_gives_up_the_other_one_runs(tmp_path: Path) -> None:
    by_scheduler = figures(tmp_path, "--scenario", TWO_JOBS, "--give-up", "600", "--until", "86400")
    alone = by_scheduler["kube-scheduler"]
    assert alone["completed"] == 2
    assert 32 * 600 / 3600 <= alone["held"] <= 32 * 660 / 3600, "both held half the cluster until the first gave up"
    assert alone["held_in_vain"] == pytest.approx(alone["rendezvous"]), "one of them in vain"


def test_a_job_that_has_waited_in_vain_too_often_has_failed(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        """
cluster: 2 nodes x 8 GPUs
give_up_s: 100
jobs:
  - {name: first, pods: 1, gpus: 8, duration_s: 100000}
  - {name: second, pods: 2, gpus: 8, duration_s: 10}
"""
    )
    by_scheduler = figures(tmp_path, "--scenario", scenario)
    alone, muster = by_scheduler["kube-scheduler"], by_scheduler["muster"]
    assert (alone["completed"], alone["never_started"], alone["waits"][1]["median_s"]) == (1, 1, None)
    assert 7 * 8 * 100 / 3600 <= alone["held"] <= 7 * 8 * 110 / 3600, "seven tries, each with one of its two pods"
    assert (muster["completed"], muster["held"]) == (2, 0)


def test_a_mark_at_the_beginning_quotes_and_foreign_line_ends_do_no_harm(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_bytes(b'\xef\xbb\xbf"submission_time", duration,num_gpu\r\n"50","10",8\r\n0,20,16\r\n')
    muster = figures(tmp_path, "--trace", trace, "--cluster", "2 nodes x 8 GPUs", "--scheduler", "muster")["muster"]
    assert (muster["jobs"], muster["completed"]) == (2, 2)


def test_gpus_alone_decide_where_a_node_has_more_of_them_than_pods(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("cluster: 1 node x 256 GPUs\njobs: [{name: wide, pods: 200, gpus: 1, duration_s: 9}]")
    by_scheduler = figures(tmp_path, "--scenario", scenario)
    assert {name: result["completed"] for name, result in by_scheduler.items()} == dict.fromkeys(by_scheduler, 1)


def test_a_policy_is_compared_beside_the_schedulers_that_are_named(tmp_path: Path) -> None:
    args = (
        "--scenario",
        TWO_JOBS,
        "--scheduler",
        "fifo",
        "--scheduler",
        "fifo",
        "--policy",
        "topology_policy=balanced",
    )
    assert list(figures(tmp_path, *args)) == ["fifo", "muster, topology_policy=balanced"]


def test_figures_on_standard_output_are_nothing_but_json() -> None:
    ended = CliRunner().invoke(main, ["--scenario", str(TWO_JOBS), "--json", "-", "--scheduler", "muster"])
    assert [scheduler["scheduler"] for scheduler in json.loads(ended.stdout)["schedulers"]] == ["muster"]
    assert "GPU-hours held by gangs that never became complete" in ended.stderr


def test_an_interrupted_run_leaves_no_file_and_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("extender.cli.simulate.run", interrupted)
    code, output = simulate("--scenario", TWO_JOBS, "--json", tmp_path / "out.json", "--html", tmp_path / "out.html")
    assert (code, "Traceback" in output) == (130, False)
    assert not list(tmp_path.iterdir())


def test_the_same_input_gives_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    rows = [
        f"a,{97 * number % 1000},{500 + 131 * number % 700},{(1, 2, 8, 16, 24)[number % 5]}" for number in range(60)
    ]
    trace.write_text(TRACE + "\n".join(rows))
    program = "import sys; from extender.cli.simulate import main; main(sys.argv[1:])"
    args = ["--trace", str(trace), "--cluster", "6 nodes x 8 GPUs in cliques of 2", "--json", "-"]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, *args],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])["schedulers"]) == 4


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    args = ("--scenario", TWO_JOBS, "--cluster", "5 nodes x 16 GPUs", "--seed", "7")
    assert figures(tmp_path, *args) == figures(tmp_path, *args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give one of --trace, --scenario and --snapshot"),
        (("--scenario", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
        (
            ("--scenario", TWO_JOBS, "--cluster", "gke-a5=2"),
            "there is no platform 'gke-a5'; there are gke-a3, gke-a3-mega",
        ),
        (("--scenario", TWO_JOBS, "--cluster", "many nodes"), "'many nodes' is not a pool of nodes; say it like this"),
        (("--scenario", TWO_JOBS, "--cluster", "1000000 nodes x 8 GPUs"), "at most 100,000 nodes are simulated"),
        (
            ("--scenario", TWO_JOBS, "--cluster", "gb200=1000000"),
            "'gb200=1000000': at most 100,000 nodes are simulated",
        ),
        (("--scenario", TWO_JOBS, "--cluster", "4 nodes x 20000 GPUs"), "at most 1,024 GPUs are simulated in a node"),
        (("--scenario", TWO_JOBS, "--cluster", f"{'9' * 5000} nodes x 8 GPUs"), "at most 100,000 nodes are simulated"),
        (
            ("--scenario", TWO_JOBS, "--cluster", "1 node x 8 GPUs"),
            "no job fits into the empty cluster: train-a needs 4 pods of 8 GPUs at once; there is room for 1 on 1 node",
        ),
        (("--scenario", TWO_JOBS, "--cluster", "9 nodes x 4 GPUs"), "8 GPUs at once; the largest node has 4"),
        (("--scenario", TWO_JOBS, "--scheduler", "slurm"), "there is no scheduler slurm; there are muster,"),
        (("--scenario", TWO_JOBS, "--policy", "topology_policy=worst"), "worst is not a known policy"),
        (("--scenario", TWO_JOBS, "--policy", "worst"), "say it like topology_policy=NAME"),
        (("--scenario", TWO_JOBS, "--policy", "mode=advise"), "a simulated Muster enforces"),
        (("--scenario", TWO_JOBS, "--load", "0.8"), "all jobs are submitted at the same moment"),
        (("--scenario", TWO_JOBS, "--policy", "topology_policy=[1"), "say it like topology_policy=NAME"),
        (("--scenario", TWO_JOBS, "--policy", "topology_policy="), "say it like topology_policy=NAME"),
        (("--scenario", TWO_JOBS, "--html", "no/where.html"), "there is no directory no"),
        (("--scenario", TWO_JOBS, "--html", "/"), "/ is a directory; name a file"),
        (("--scenario", TWO_JOBS, "--json", "x", "--html", "x"), "--json and --html are the same file"),
        (("--scenario", TWO_JOBS, "--json", TWO_JOBS), "--scenario and --json are the same file"),
        (("--scenario", TWO_JOBS, "--jobs", "3"), "--jobs goes with --trace"),
        (("--scenario", TWO_JOBS, "--scheduler-name", "x"), "--scheduler-name goes with --snapshot"),
        (("--scenario", TWO_JOBS, "--price", "inf"), "Invalid value for '--price'"),
        (("--snapshot", "x", "--html", "x"), "--snapshot and --html are the same file"),
        (("--snapshot", "cluster.json", "--scheduler", "fifo"), "--scheduler goes with --trace or --scenario"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(args: tuple[str | Path, ...], message: str) -> None:
    code, output = simulate(*args)
    assert code == 2
    assert message in " ".join(output.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "time,gpus\n1,2\n",
            "the trace has no column submission_time, duration, num_gpu; its columns are time, gpus: say which it is "
            "with --submit-column, --duration-column, --gpus-column",
        ),
        (TRACE + "a,0,10,many\n", "line 2 of the trace: num_gpu is 'many', not a number"),
        (TRACE + "a,0,-10,8\n", "line 2 of the trace: 8 GPUs for -10 s is not a job"),
        (TRACE, "there is no job in the input"),
        (TRACE + "a,0,10,0\n", "there is no job in the trace: every row has 0 num_gpu or 0 duration"),
        ("", "the trace is empty"),
        (TRACE + "a,0,nan,8\n", "line 2 of the trace: duration is 'nan', not a number"),
        (TRACE + "a,0,10,2.5\n", "line 2 of the trace: num_gpu is '2.5', not a whole number"),
        (TRACE + "a,0,10,8\na,1e300,10,8\n", "line 3 of the trace: submission_time is 1e300"),
        (TRACE + "a,0,1e300,8\n", "line 2 of the trace: 8 GPUs for 1e+300 s is not a job"),
        (TRACE + "a,0,10,1,000\n", "line 2 of the trace has more cells than the heading has columns"),
        ("submission_time,duration,num_gpu,num_gpu\n0,1,2,3\n", "the trace has several columns num_gpu"),
        (b"\x1f\x8b\x08\x00", "t.csv is compressed: unpack it first"),
        (b"submission_time,duration,num_gpu\n0,1,\xff\n", "t.csv is not text in UTF-8"),
    ],
)
def test_a_trace_that_cannot_be_read_names_the_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, output = simulate("--trace", tmp_path / "t.csv", "--cluster", "1 node x 8 GPUs")
    assert code == 2
    assert message in " ".join(output.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("jobs: [", "the scenario is not YAML"),
        ("jobs: 2026-99-99", "the scenario is not YAML"),
        ("[1, 2]", "the scenario is not a mapping"),
        ("", "the scenario is not a mapping"),
        ("clusters: 1 node x 8 GPUs\njobs: [{name: a, pods: 1, gpus: 8, duration_s: 9}]", "clusters: nothing is"),
        ("jobs: [{name: a, pods: yes, gpus: 8, duration_s: 9}]", "pods is true, which is neither a number nor a name"),
        ("jobs: [{name: a, pods: 1, gpus: 8, duration_s: .nan}]", "jobs.0.duration_s: Input should be a finite number"),
        ("jobs: [{name: a, pods: 1, gpus: 8, duration_s: 1.0e+300}]", "jobs.0.duration_s: Input should be less"),
        ("jobs: [{name: a, pods: 1, gpus: 8, duration_s: 9, copies: 9, every_s: 2.0e+9}]", "over more than 300 years"),
        ("jobs: [{name: a, pods: 1, gpus: 8, duration_s: 9}]\njobs: []", "cannot be used: jobs is there twice, line 1"),
        ("jobs: &again [*again]", "the value of line 1 contains itself"),
        ("jobs: []", "jobs: List should have at least 1 item"),
        ("jobs: [{name: a, pods: 2, gpus: 8, duration_s: 9, min_member: 3}]", "min_member 3 is more than its 2 pods"),
        ("give_up_s: null\njobs: [{name: a, pods: 2, gpus: 8, duration_s: 9}]", "then until_s has to be given"),
        ("jobs: [{name: a, pods: 1, gpus: 8, duration_s: 9, copies: 2}, {name: a-1, pods: 1, gpus: 1, duration_s: 9}]",
         "two jobs of the scenario are called a-1"),
    ],
)  # fmt: skip
def test_a_scenario_that_cannot_be_used_says_why(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "s.yaml").write_text(content)
    code, output = simulate("--scenario", tmp_path / "s.yaml", "--cluster", "4 nodes x 8 GPUs")
    assert code == 2
    assert message in " ".join(output.split())


def test_jobs_that_are_left_out_are_counted_wherever_the_jobs_are(tmp_path: Path) -> None:
    empty = "x,1,60,0\nx,2,60,0\nx,3,0,8\nother,4,60,0\n"
    (tmp_path / "jobs.csv").write_text(TRACE + "x,0,60,8\nx,5,60,64\n" + empty)
    cluster, out = "1 nodes x 8 GPUs", tmp_path / "out.json"
    code, output = simulate("--trace", tmp_path / "jobs.csv", "--cluster", cluster, "--json", out)
    assert code == 0, output
    described = json.loads(out.read_text())["input"]
    assert (described["jobs"], described["cluster"]) == ("2 jobs of jobs.csv, 1 left out", "1 node x 8 GPUs")
    assert f"{described['jobs']}; {described['cluster']}" in output
    assert "3 jobs of 0 GPUs were left out" in output
    assert "1 job of 0 s was left out" in output
    left_out = "1 job left out, for which the empty cluster is too small: job-3 needs 8 pods of 8 GPUs at once"
    assert left_out in " ".join(output.split())


def test_the_report_shows_reserved_room_backfilled_jobs_and_how_good_expected_starts_were(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        """
cluster: 2 nodes x 8 GPUs
jobs:
  - {name: long, pods: 1, gpus: 8, duration_s: 40000}
  - {name: short, pods: 1, gpus: 8, duration_s: 10000}
  - {name: big, submit_s: 10, pods: 2, gpus: 8, duration_s: 1000}
  - {name: gap, submit_s: 10500, pods: 1, gpus: 8, duration_s: 5000}
"""
    )
    args = ("--scenario", scenario, "--durations", "exact", "--policy", "reserve_after_s=0")
    by_scheduler = figures(tmp_path, *args)
    foresight = by_scheduler["muster, reserve_after_s=0"]["foresight"]
    assert by_scheduler["fifo"]["foresight"] is None
    assert foresight["backfilled"] == 1
    assert foresight["late_s"] == [pytest.approx(0, abs=1)]
    assert foresight["kept"] == pytest.approx(8 * (30_000 - 5000) / 3600, rel=0.01)
    (expected,) = foresight["expected"]
    assert (expected["queue"], expected["starts"]) == ("", 1)
    assert expected["median"] == pytest.approx(1, abs=0.01)
    output = " ".join(simulate(*args)[1].split())
    assert "Jobs backfilled on reserved nodes" in output
    assert "0 of 1" in output
    assert "no queue" in output
