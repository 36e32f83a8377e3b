"""The Dockerfile fits the lock file and the manifests, and its image serves in the pod that they describe."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from devcluster.certificates import Authority
from devcluster.ports import free_port
from tests.image import dockerfile
from tests.image.building import built
from tests.image.pod import Pod, end
from tests.image.roots import CannotError, Image

ROOT = Path(__file__).parent.parent
STAGES = dockerfile.stages((ROOT / "Dockerfile").read_text())
PYTHON = {"trixie": (3, 13)}
"""The version of Debian's package python3, by the suite."""
GLIBC_OF_TRIXIE = 41
LARGEST_MB = 420


@cache
def locked() -> dict[str, list[dict[str, Any]]]:
    packages: dict[str, list[dict[str, Any]]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        packages.setdefault(package["name"], []).append(package)
    return packages


def needed_by_the_server() -> Iterator[str]:
    """Names of all packages of the image, for any markers."""
    packages = locked()
    [project] = packages["muster-scheduler"]
    names = [
        dependency["name"] for dependency in [*project["dependencies"], *project["optional-dependencies"]["server"]]
    ]
    seen = set(names)
    while names:
        name = names.pop()
        yield name
        for package in packages[name]:
            further = [
                dependency["name"] for dependency in package.get("dependencies", []) if dependency["name"] not in seen
            ]
            seen.update(further)
            names += further


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_dependency_has_a_wheel_for_the_python_of_the_image(machine: str) -> None:
    """The image has no compiler."""
    version = PYTHON[dockerfile.suite_of(STAGES[-1].base)]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_OF_TRIXIE, 4, -1)] + [
        f"manylinux2014_{machine}"
    ]
    fitting = {*cpython_tags(version, platforms=platforms), *compatible_tags(version, platforms=platforms)}

    def has_wheel(package: dict[str, Any]) -> bool:
        files = [wheel["url"].rpartition("/")[2] for wheel in package.get("wheels", [])]
        return any(parse_wheel_filename(file)[3] & fitting for file in files)

    names = sorted(needed_by_the_server())
    assert "kubernetes" in names
    without = [name for name in names if not any(has_wheel(package) for package in locked()[name])]
    assert without == []


def test_the_stages_agree_with_each_other_and_with_the_manifests() -> None:
    builder, last = STAGES
    assert (builder.name, builder.base) == ("builder", last.base)
    instructions = {name: text for name, text in last.instructions if name in ("USER", "ENTRYPOINT", "COPY")}
    deployment = yaml.safe_load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())
    security = deployment["spec"]["template"]["spec"]["securityContext"]
    assert instructions["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert (
        json.loads(instructions["ENTRYPOINT"])[0]
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    )
    # A virtual environment works only where it was made.
    workdir = next(text for name, text in builder.instructions if name == "WORKDIR")
    assert dockerfile.copy(instructions["COPY"]) == ("builder", (f"{workdir}/.venv",), f"{workdir}/.venv")


def test_what_is_copied_is_sent_and_nothing_else() -> None:
    context = dockerfile.Context(ROOT)
    copied = [dockerfile.copy(text) for stage in STAGES for name, text in stage.instructions if name == "COPY"]
    files = [
        file
        for instruction in copied
        if not instruction.stage
        for source in instruction.sources
        for file in context.files(source)
    ]
    assert ROOT / "extender" / "cli" / "main.py" in files
    assert not [file for file in files if "__pycache__" in file.parts]
    for left_out in ("tests", "Makefile", ".git"):
        with pytest.raises(FileNotFoundError, match=r"\.dockerignore sends nothing of it"):
            context.files(left_out)


def test_what_is_not_carried_out_is_refused() -> None:
    for text in ("FROM a\nADD b c\n", "FROM a AS\n"):
        with pytest.raises(dockerfile.UnknownInstructionError):
            dockerfile.stages(text)
    with pytest.raises(dockerfile.UnknownInstructionError):
        dockerfile.copy("--chown=1 a b")
    [stage] = dockerfile.stages('FROM a AS b\n# why\nRUN c \\\n# why, too\n    && d\nENV X=1 \\\n  P="/p:${P}"\n')
    assert [name for name, _ in stage.instructions] == ["RUN", "ENV"]
    assert stage.instructions[0].text.split() == ["c", "&&", "d"]
    assert dockerfile.variables(stage.instructions[1].text, {"P": "/q"}) == {"X": "1", "P": "/p:/q"}


@pytest.fixture(scope="module")
def image() -> Image:
    try:
        return built()
    except CannotError as error:
        pytest.skip(f"no Debian root can be made here: {error}")


@pytest.fixture
def pod(image: Image, tmp_path: Path) -> Pod:
    """A pod whose API server does not answer."""
    authority = Authority(tmp_path / "authority")
    identity = tmp_path / "identity"
    identity.mkdir()
    (identity / "token").write_text("own")
    (identity / "ca.crt").write_bytes(authority.certificate.read_bytes())
    return Pod(image, f"127.0.0.1:{free_port()}", identity, free_port())


@pytest.mark.timeout(900)  # the first build fetches a Debian
def test_the_image_has_what_it_needs_and_is_as_small_as_is_said(image: Image, pod: Pod) -> None:
    assert image.megabytes() < LARGEST_MB
    shown = pod.run("python", "-c", "import sys, uvloop, numpy, kubernetes; print(sys.version_info[:2])")
    assert shown.stdout.strip() == str(PYTHON["trixie"]), shown.stderr
    assert pod.run("muster", "--version").stdout.startswith("muster ")
    for absent in ("uv", "pip", "hatchling"):
        assert pod.run("sh", "-c", f"command -v {absent}").returncode != 0


@pytest.mark.timeout(900)
def test_the_container_has_no_rights_and_writes_nowhere_but_in_its_volume(pod: Pod) -> None:
    shown = pod.run("sh", "-c", "id -u; id -g; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
    assert shown.stdout.split() == ["65532", "65532", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    for place in ("/", "/app", "/usr/bin", "/etc/muster", "/var/run/secrets/kubernetes.io/serviceaccount"):
        assert pod.run("touch", f"{place}/new").returncode != 0, place
    assert pod.run("touch", "/var/lib/muster/new").returncode == 0


@pytest.mark.timeout(900)
def test_the_container_serves_and_ends(pod: Pod) -> None:
    """The arguments and probes are the manifest's. `make image` does this with an API server that answers."""
    with pod.serving() as process:
        assert pod.until("livenessProbe", process) == "ok"
        assert end(process) == 0
