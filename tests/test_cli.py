"""The command line as a whole: the cost of its start, its help and completion, and mistakes of its user."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

import extender.cli.main as cli
from extender import probe
from extender.cli.main import main
from tests.kube.test_tokens import kubeconfig

ROOT = Path(__file__).parent.parent
MUSTER = Path(sys.executable).with_name("muster")
HEAVY = {"numpy", "pydantic", "httpx", "aiohttp", "msgspec", "fastapi", "starlette", "kubernetes"}


class Page(BaseHTTPRequestHandler):
    """A Muster that lives and is not ready."""

    def do_GET(self) -> None:
        alive = self.path == "/healthz"
        self.send_response(200 if alive else 503)
        self.end_headers()
        self.wfile.write(b"ok\n" if alive else b"not synced\n")

    def log_message(self, *_: object) -> None:
        """Discard the message."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def nobody() -> int:
    """A port that no server listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def imported(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after the statement."""
    program = f"import sys\ntry:\n {statement}\nexcept SystemExit: pass\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


# The cost of a start.


def test_the_probe_imports_next_to_nothing(port: int) -> None:
    environment = f"import os; os.environ['MUSTER_LISTEN_PORT'] = '{port}'"
    loaded = imported(f"{environment}; from extender.probe import main; assert main(['--live']) == 0")
    assert loaded & (HEAVY | {"typer", "rich", "asyncio", "yaml"}) == set()


def test_the_list_of_commands_imports_no_command() -> None:
    assert imported("from extender.cli.main import main; main(['--help'])") & HEAVY == set()


def test_the_probes_of_the_manifests_are_the_light_one(port: int, tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text(yaml.safe_dump({"listen_port": port}))
    deployment = yaml.safe_load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())
    containers = deployment["spec"]["template"]["spec"]["containers"]
    (muster,) = (container for container in containers if container["name"] == "muster")
    codes = {}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        program, *args = muster[name]["exec"]["command"]
        args = [f"--config={config}" if arg == "--config=/etc/muster/muster.yaml" else arg for arg in args]
        assert (program, args[:2]) == ("python", ["-m", "extender.probe"])
        codes[name] = subprocess.run([sys.executable, *args], capture_output=True, check=False).returncode
    assert codes == {"startupProbe": 0, "livenessProbe": 0, "readinessProbe": 1}


# The probe.


def test_the_probe_reads_the_settings_that_say_where_muster_listens(tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text("listen_host: 0.0.0.0\nlisten_port: 1\ntls_cert_file: a\ntls_key_file: b\nmode: advise\n")
    listener = probe.listener_from(str(config), {"MUSTER_LISTEN_PORT": "2", "muster_tls_client_ca_file": "c"})
    assert listener == probe.Listener("0.0.0.0", 2, "a", "b", "c")  # noqa: S104
    assert listener.url == "https://127.0.0.1:2"
    assert probe.listener_from(None, {}) == probe.Listener()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("listen_port: high", "listen_port: 'high' is not a port"),
        ("listen_port: 102901029010290", "listen_port: 102901029010290 is not a port"),
        ("- listen_port", "expected a mapping"),
        ("{", "is not YAML"),
        (None, "No such file"),
        ("tls_cert_file: /nowhere\ntls_key_file: /nowhere", "/nowhere: No such file"),
    ],
)
def test_the_probe_says_what_is_wrong_in_one_line(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "muster.yaml"
    if content is not None:
        config.write_text(content)
    assert probe.main([f"--config={config}"]) == 2
    errors = capsys.readouterr().err
    assert (said in errors, errors.count("\n")) == (True, 1), errors


def test_check_asks_what_the_probe_asks(port: int, nobody: int) -> None:
    def check(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["check", *args])
        return done.exit_code, done.output.strip()

    assert check(f"--port={port}", "--live") == (0, "ok")
    assert check(f"--port={port}", "--ready") == (1, "not synced")
    code, output = check(f"--port={nobody}")
    assert (code, f"no answer from http://127.0.0.1:{nobody}/readyz" in output) == (2, True)


# Ctrl-C while Python imports the modules of a command.


@pytest.mark.parametrize("module", ["typer", "extender.cli.main", "extender.cli.inspection.commands", "httpx"])
@pytest.mark.parametrize("script", ["muster", "kubectl-muster"])
def test_ctrl_c_during_the_imports_ends_without_a_traceback(script: str, module: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    entry, _, function = scripts[script].partition(":")
    program = f"""
import importlib.abc, sys
class CtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "{module}":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
sys.argv[1:] = ["gangs", "--url=http://127.0.0.1:1"]
from {entry} import {function}
{function}()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


# Help, version, completion.


def test_the_help_of_every_command_fits_on_its_line() -> None:
    listed = CliRunner().invoke(main, ["--help"], env={"COLUMNS": "80"}).output
    assert "..." not in listed.partition("Commands:")[2]


@pytest.mark.parametrize("command", [["--help"], ["simulate", "--help"], ["--version"]])
def test_a_full_disk_is_told_in_a_sentence(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([MUSTER, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "the output could not be written: no space is left where it goes\n"


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"muster {version('muster-scheduler')}\n"


def test_the_summaries_of_benchmarks_are_whole_sentences() -> None:
    listed = CliRunner().invoke(main, ["bench", "--help"], env={"COLUMNS": "80"}).output.partition("Commands:")[2]
    rows = [line.strip() for line in listed.splitlines() if line.strip()]
    assert [row for row in rows if not row.endswith(".") or row.endswith("...")] == []
    assert rows.index(next(row for row in rows if row.startswith("latency"))) < len(rows) // 4


@pytest.mark.parametrize(
    "name", ["explain", "gangs", "domains", "doctor", "release", "token", "simulate", "hold", "evict"]
)
def test_the_list_of_commands_says_what_the_command_says_of_itself(name: str) -> None:
    group: typer.core.TyperGroup = typer.main.get_command(main)  # type: ignore[assignment]
    command = group.commands[name]
    assert isinstance(command, cli.Deferred)
    assert command.load().help.partition("\n\n")[0].replace("\n", " ") == command.help


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("gan", "gangs"), ("gangs --sta", "--state"), ("simulate --sna", "--snapshot"), ("bench lat", "latency")],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    line = f"muster {typed}"
    environment = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": f"{line.count(' ')}"}
    done = subprocess.run([MUSTER], env=os.environ | environment, capture_output=True, text=True, check=False)
    assert offered in done.stdout.split(), done.stderr


def test_completion_can_be_shown_and_installed() -> None:
    listed = CliRunner().invoke(main, ["--help"], env={"COLUMNS": "160"}).output
    assert "--install-completion" in listed
    assert "--show-completion" in listed


# Mistakes.

MISTAKES = {
    "unknown command": ("gangz", "No such command 'gangz'. Did you mean 'gangs'?"),
    "unknown option": ("gangs --nope", "No such option: --nope"),
    "bad choice": ("gangs -o xml", "'xml' is not one of"),
    "both namespaces": ("gangs -A -n team", "contradict each other"),
    "no URL": ("gangs --url=nonsense", "is not a URL"),
    "gangs of no context": ("gangs --kubeconfig={config} --context=prod", "there is no context prod; there are c"),
    "gangs without cluster": ("gangs --kubeconfig={missing}", "there is no kubeconfig {missing}"),
    "nobody there": ("gangs --url=http://127.0.0.1:{nobody}", "{nobody}: connection refused"),
    "missing authority": ("domains --url=https://127.0.0.1:{nobody} --ca-file={missing}", "cannot be used"),
    "key without certificate": ("domains --url=https://127.0.0.1:{nobody} --key-file={missing}", "--cert-file"),
    "bad gang": ("explain /", "is not a name: write NAMESPACE/GANG"),
    "bad port": ("serve --port=70000", "listen_port"),
    "settings are missing": ("serve --config={missing}", "No such file"),
    "settings are a folder": ("check --config={folder}", "Is a directory"),
    "kubeconfig is missing": ("serve --kubeconfig={missing}", "{missing}"),
    "kubeconfig is none": ("serve --kubeconfig={text}", "{text}"),
    "doctor without cluster": ("doctor --kubeconfig={missing}", "no credentials"),
    "doctor without file": ("doctor --kube-scheduler-config={missing}", "No such file"),
    "doctor of no context": ("doctor --kubeconfig={config} --context=prod", "there is no context prod in {config}"),
    "release of no context": ("release --all --kubeconfig={config} --context=prod", "prod"),
    "snapshot of no context": ("snapshot -o {folder}/x --kubeconfig={config} --context=prod", "prod"),
    "release of nothing": ("release", "say --all"),
    "release without cluster": ("release --all --kubeconfig={missing}", "no credentials"),
    "token to nowhere": ("token team/one --directory={missing}", "there is no directory {missing}"),
    "token to a file": ("token team/one --directory={text}", "there is no directory {text}"),
    "token for ever": ("token team/one --directory={folder} --lifetime=5000000000", "--lifetime"),
    "snapshot without cluster": ("snapshot -o {folder}/x --kubeconfig={missing}", "{missing}"),
    "snapshot to nowhere": ("snapshot -o {folder}/no/x --kubeconfig={missing}", "no"),
    "no input": ("simulate", "--trace"),
    "no trace": ("simulate --trace={missing} --cluster='2 nodes x 8 GPUs'", "No such file"),
    "no scenario": ("simulate --scenario={missing}", "No such file"),
    "no snapshot": ("simulate --snapshot={missing}", "No such file"),
    "snapshot is none": ("simulate --snapshot={text}", "{text}"),
    "bad number": ("simulate --scenario={text} --load=much", "Invalid value for '--load'"),
    "unknown policy": ("simulate --scenario={text} --policy=queue_policy=odd", "odd"),
    "bench without URL's scheme": ("bench latency --url=nonsense", "is not a URL"),
    "bench at nobody": ("bench latency --url=http://127.0.0.1:{nobody} --calls=1", "/filter: connection refused"),
    "bench to nowhere": (
        "bench latency --url=http://127.0.0.1:{nobody} --output={folder}/no/x",
        "there is no directory {folder}/no",
    ),
    "bench to a folder": ("bench core --output={folder}", "{folder} is a directory"),
    "bench of too few nodes": ("bench core --nodes=199", "--nodes"),
    "bench of too few queues": ("bench queues --queues=8", "--queues"),
    "demo at any price": ("demo --price=inf", "--price"),
    "bad rate": ("bench latency --url=http://127.0.0.1:{nobody} --rate=0", "--rate"),
    "unknown benchmark": ("bench nope", "No such command 'nope'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence_and_exit_code_2(mistake: str, nobody: int, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("just text\n")
    config = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{nobody}", {})
    names = {"nobody": nobody, "config": config, "missing": tmp_path / "missing", "folder": tmp_path, "text": text}
    typed, message = (words.format(**names) for words in MISTAKES[mistake])
    argv = [word.strip("'") for word in re.findall(r"(?:[^\s']|'[^']*')+", typed)]
    done = CliRunner().invoke(main, argv, env={"COLUMNS": "1000", "MUSTER_URL": ""})
    assert done.exit_code == 2, (done.output, done.exception)
    assert message in done.output, done.output
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
