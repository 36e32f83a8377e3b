"""Tokens that expire: their readers take up a new file at once, and their writers are in time."""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kube.api import login as module
from extender.kube.api.connection import Connection
from extender.kube.api.tokens import RETRY_S, Account, keep_fresh
from tests.kube.fake_api import CUT, OK, Answer, FakeApi, fake_api, refused

PATH = "/api/v1/namespaces/kube-system/serviceaccounts/muster-extender/token"
ACCOUNT = Account("kube-system", "muster-extender")


def kubeconfig(at: Path, server: str, user: dict[str, Any]) -> Path:
    named = {"cluster": "c", "user": "u"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": named}],
        "current-context": "c",
    }
    at.write_text(yaml.safe_dump(content))
    return at


async def seen(api: FakeApi, connection: Connection) -> str:
    """The caller's identity that the API server sees."""
    await connection.call("GET", "/version")
    return api.asked[-1].authorization


def replace(path: Path, content: str) -> None:
    """Replace the file as a kubelet and `muster token` do it."""
    new = path.with_name("new")
    new.write_text(content)
    new.replace(path)


@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_a_renewed_token_of_a_kubeconfig_is_taken_up(tmp_path: Path, named: str) -> None:
    async def script() -> None:
        async with fake_api() as (api, _):
            api.on("GET", "/version", OK)
            token = tmp_path / "token"
            token.write_text("first\n")
            user = {"tokenFile": str(token) if named == "absolute" else "token"}
            connection = await Connection.open(kubeconfig(tmp_path / "config", api.url, user))
            assert await seen(api, connection) == "Bearer first"
            replace(token, "second")
            assert await seen(api, connection) == "Bearer second"
            # In the middle of a renewal, or where the volume is away, the last one is as good as ever.
            replace(token, "")
            assert await seen(api, connection) == "Bearer second"
            token.unlink()
            assert await seen(api, connection) == "Bearer second"
            token.write_text("third")
            assert await seen(api, connection) == "Bearer third"
            await connection.close()

    asyncio.run(script())


def test_a_token_that_is_in_the_kubeconfig_stays(tmp_path: Path) -> None:
    async def script() -> None:
        async with fake_api() as (api, _):
            api.on("GET", "/version", OK)
            token = tmp_path / "token"
            token.write_text("other")
            user = {"token": "own", "tokenFile": str(token)}
            connection = await Connection.open(kubeconfig(tmp_path / "config", api.url, user))
            assert await seen(api, connection) == "Bearer own"
            await connection.close()

    asyncio.run(script())


def test_a_renewed_token_of_a_pod_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("first")

    def load(client_configuration: Any, **_: Any) -> None:
        client_configuration.host = url

    monkeypatch.setattr(module, "load_incluster_config", load)
    monkeypatch.setattr(module, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(module, "_kubeconfig", lambda _: None)
    url = ""

    async def script() -> None:
        nonlocal url
        async with fake_api() as (api, _):
            api.on("GET", "/version", OK)
            url = api.url
            connection = await Connection.open()
            assert await seen(api, connection) == "Bearer first"
            replace(token, "second")
            assert await seen(api, connection) == "Bearer second"
            token.unlink()
            assert await seen(api, connection) == "Bearer second"
            await connection.close()

    asyncio.run(script())


PROGRAMS: dict[str, list[str]] = {
    "is not there": ["/no/such/program"],
    "fails": ["false"],
    "says nothing": ["true"],
    "gives no token": ["echo", '{"apiVersion": "v1", "kind": "ExecCredential", "status": {}}'],
}
"""The programs that a kubeconfig may name, such as those of managed control planes: aws, gke-gcloud-auth-plugin."""


@pytest.mark.parametrize("wrong", PROGRAMS)
def test_a_program_that_gives_no_credentials_is_named(tmp_path: Path, wrong: str) -> None:
    command, *args = PROGRAMS[wrong]
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", program(command, args))
    with pytest.raises(ValueError, match=f"the program {command}, which {path} names, gave no credentials"):
        asyncio.run(module.log_in(path))


def test_a_program_may_give_the_credentials(tmp_path: Path) -> None:
    def log_in(given: str) -> None:
        credential = f'{{"apiVersion": "v1", "kind": "ExecCredential", "status": {{{given}}}}}'
        asyncio.run(module.log_in(kubeconfig(tmp_path / "config", "http://127.0.0.1:1", program("echo", [credential]))))

    log_in('"token": "a"')
    with pytest.raises(ssl.SSLError, match="PEM"):  # it is taken, and is no certificate
        log_in('"clientCertificateData": "a", "clientKeyData": "b"')


def program(command: str, args: list[str]) -> dict[str, Any]:
    return {"exec": {"apiVersion": "v1", "command": command, "args": args}}


@pytest.mark.parametrize("variable", ["", None])
def test_without_a_kubeconfig_in_the_environment_the_one_at_home_is_taken(tmp_path: Path, variable: str | None) -> None:
    (tmp_path / ".kube").mkdir()
    path = kubeconfig(tmp_path / ".kube" / "config", "http://127.0.0.1:7", {"token": "own"})
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("KUBECONFIG", None)
    if variable is not None:
        environment["KUBECONFIG"] = variable
    asking = "import asyncio; from extender.kube.api.login import log_in; print(asyncio.run(log_in()).host)"

    def asked() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", asking], env=environment, capture_output=True, text=True)

    assert asked().stdout == "http://127.0.0.1:7\n"
    path.unlink()
    assert f"there is no kubeconfig {path}, and this is no pod of a cluster" in asked().stderr


def test_the_context_of_the_kubeconfig_is_chosen_by_name(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {})
    content = yaml.safe_load(path.read_text())
    content["clusters"].append({"name": "d", "cluster": {"server": "http://127.0.0.1:2"}})
    content["contexts"].append({"name": "d", "context": {"cluster": "d", "user": "u"}})
    path.write_text(yaml.safe_dump(content))
    hosts = [asyncio.run(module.log_in(path, context)).host for context in (None, "c", "d")]
    assert hosts == ["http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_a_context_without_a_kubeconfig_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=f"there is no kubeconfig {tmp_path / 'none'}, and so no context prod"):
        asyncio.run(module.log_in(None, "prod"))


def given(token: str, lasts_s: int = 1800) -> Answer:
    return Answer(body={"spec": {"expirationSeconds": lasts_s}, "status": {"token": token}})


def kept(directory: Path, *answers: Answer, authority: Path | None = None) -> tuple[list[str], list[float], FakeApi]:
    """The token that lies there at each pause, and the pauses, one for each answer."""
    tokens: list[str] = []
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        path = directory / "token"
        tokens.append(path.read_text() if path.exists() else "")
        pauses.append(seconds)
        if len(pauses) == len(answers):
            raise asyncio.CancelledError

    async def script() -> FakeApi:
        async with fake_api() as (api, _):
            api.on("POST", PATH, *answers)
            connection = await Connection.open(kubeconfig(directory / "config", api.url, {"token": "own"}))
            with pytest.raises(asyncio.CancelledError):
                await keep_fresh(connection, ACCOUNT, directory, 1800, authority=authority, pause=pause)
            await connection.close()
            return api

    return tokens, pauses, asyncio.run(script())


def test_a_token_is_renewed_after_half_of_the_time_that_it_was_given_for(tmp_path: Path) -> None:
    tokens, pauses, api = kept(tmp_path, given("a"), given("b", lasts_s=600))
    assert (tokens, pauses) == (["a", "b"], [900, 300])
    assert [body["spec"] for body in api.bodies("POST")] == [{"expirationSeconds": 1800}] * 2


@pytest.mark.parametrize("answer", [CUT, refused(403, "Forbidden"), refused(500), Answer(body={"status": {}})])
def test_what_does_not_come_is_asked_for_again_soon(tmp_path: Path, answer: Answer) -> None:
    tokens, pauses, _ = kept(tmp_path, given("a"), answer, given("b"))
    assert (tokens, pauses) == (["a", "a", "b"], [900, RETRY_S, 900])


def test_the_files_are_whole_and_for_one_reader(tmp_path: Path) -> None:
    authority = tmp_path / "source.crt"
    authority.write_text("-----BEGIN")
    directory = tmp_path / "there"
    directory.mkdir()
    kept(directory, given("a"), given("b"), authority=authority)
    files = {path.name: path for path in directory.iterdir() if path.name != "config"}
    assert {name: path.read_text() for name, path in files.items()} == {"token": "b", "ca.crt": "-----BEGIN"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o400}


def test_outside_of_a_pod_the_command_writes_a_token_too(tmp_path: Path) -> None:
    async def script() -> bytes:
        async with fake_api() as (api, _):
            api.on("POST", PATH, given("a"))
            path = kubeconfig(tmp_path / "config", api.url, {"token": "own"})
            muster = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name("muster"), "token", "kube-system/muster-extender",
                f"--directory={tmp_path}", env={**os.environ, "KUBECONFIG": str(path)}, stderr=subprocess.PIPE,
            )  # fmt: skip
            assert muster.stderr is not None
            line = await muster.stderr.readline()
            muster.terminate()
            await muster.wait()
            return line

    output = asyncio.run(script())
    assert b"wrote a token of kube-system/muster-extender" in output
    assert (tmp_path / "token").read_text() == "a"
