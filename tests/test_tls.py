"""The clients that may speak to Muster: refused settings, and real handshakes with several authorities."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from devcluster.certificates import Authority
from devcluster.tls import client_context
from extender import probe
from extender.cli.main import main
from extender.config.settings import SettingsError, load
from extender.config.tls_files import TlsFiles
from extender.core.ledger.state import State
from extender.http.scrape import metrics_page
from extender.http.tls import Credentials, TlsError
from extender.observe.metrics import Metrics
from extender.probe import Listener
from tests.tls import replace, said_to, serial, serving, trusting


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "theirs")


@pytest.fixture
def files(ours: Authority) -> TlsFiles:
    pair = ours.serving("server")
    return TlsFiles(pair.certificate, pair.key, ours.certificate)


# Which settings can be used at all.


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    assert load(None, listen_host=host).tls is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "fe80::1", "muster.example", "127.1", "0"])  # noqa: S104
def test_any_other_address_needs_mutual_tls_and_says_so_in_one_line(host: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^listen_host .* whoever reaches Muster can bind pods: set .*127\.0\.0\.1$"
    ):
        load(None, listen_host=host)
    with pytest.raises(SettingsError, match="tls_client_ca_file"):
        load(None, listen_host=host, tls_cert_file="tls.crt", tls_key_file="tls.key")
    trusted = {"tls_cert_file": "tls.crt", "tls_key_file": "tls.key", "tls_client_ca_file": "ca.crt"}
    assert load(None, listen_host=host, **trusted).tls == TlsFiles(Path("tls.crt"), Path("tls.key"), Path("ca.crt"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_cert_file": "a"}, "tls_cert_file and tls_key_file need each other"),
        ({"tls_key_file": "a"}, "tls_cert_file and tls_key_file need each other"),
        ({"tls_client_ca_file": "a"}, "tls_client_ca_file needs tls_cert_file and tls_key_file"),
        ({"tls_cert_file": "a", "tls_key_file": "b", "tls_client_names": ["c"]}, "tls_client_names needs"),
    ],
)
def test_half_of_a_setting_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(None, **given)


def test_the_unsafe_combination_ends_the_command_with_one_line_and_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_LISTEN_HOST", "0.0.0.0")  # noqa: S104
    for command in ("serve", "check"):
        done = CliRunner().invoke(main, [command])
        assert done.exit_code == 2
        assert "mutual TLS" in done.output
        assert "Traceback" not in done.output


# Files that cannot be used.


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda files: files.cert.unlink(), "server.crt: No such file"),
        (lambda files: files.client_ca.unlink(), "ca.crt: No such file"),
        (lambda files: files.cert.write_text("nothing"), "server.crt: there is no certificate in PEM in it"),
        (lambda files: files.key.write_text(""), "server.key: there is no private key in PEM in it"),
        (lambda files: files.client_ca.write_text("x"), "ca.crt: there is no certificate in PEM in it"),
        (lambda files: (files.key.unlink(), files.key.mkdir()), "server.key: Is a directory"),
    ],
)
def test_files_that_cannot_be_used_are_named_in_one_line(
    files: TlsFiles, spoil: Callable[[TlsFiles], object], said: str
) -> None:
    spoil(files)
    with pytest.raises(TlsError, match=said) as caught:
        Credentials(files)
    assert "\n" not in str(caught.value)


def test_a_key_of_another_certificate_is_refused(files: TlsFiles, ours: Authority) -> None:
    other = ours.serving("other")
    with pytest.raises(TlsError, match="key values mismatch"):
        Credentials(TlsFiles(files.cert, other.key, files.client_ca))


def test_serve_ends_with_code_2_before_it_asks_the_cluster(files: TlsFiles, tmp_path: Path) -> None:
    files.key.unlink()
    settings = {"listen_port": 0, "tls_cert_file": str(files.cert), "tls_key_file": str(files.key)}
    (tmp_path / "muster.yaml").write_text(yaml.safe_dump(settings))
    done = CliRunner().invoke(main, ["serve", f"--config={tmp_path / 'muster.yaml'}"])
    assert done.exit_code == 2
    assert "cannot serve HTTPS" in done.output
    assert "server.key: No such file" in done.output


# Real handshakes.


def test_only_a_certificate_of_the_authority_opens_the_door(
    files: TlsFiles, ours: Authority, theirs: Authority
) -> None:
    with serving(Credentials(files)) as port:
        assert said_to(client_context(ours.certificate, ours.client("scheduler", "scheduler")), port) == "ok\n"
        assert said_to(trusting(ours), port) == "", "no page without a certificate, health included"
        foreign = trusting(ours)
        stranger = theirs.client("scheduler", "scheduler")
        foreign.load_cert_chain(stranger.certificate, stranger.key)
        assert said_to(foreign, port) == ""
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)


def test_what_is_older_than_tls_1_3_is_refused(files: TlsFiles, ours: Authority) -> None:
    old = client_context(ours.certificate, ours.client("scheduler", "scheduler"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(Credentials(files)) as port:
        assert said_to(old, port) == ""


def test_of_an_authority_that_signs_for_many_only_the_named_callers_are_let_in(
    files: TlsFiles, ours: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Credentials(files), names=("kube-scheduler", "prometheus")) as port:
        for name, answer in (("prometheus", "ok\n"), ("node-7", ""), ("kube-scheduler", "ok\n")):
            assert said_to(client_context(ours.certificate, ours.client(name, name)), port) == answer
        assert "refused a caller whose certificate is for 'node-7'" in caplog.text
        # A DNS name of the certificate is as good as its common name.
    with serving(Credentials(files), names=("kubernetes.default.svc",)) as port:
        assert said_to(client_context(ours.certificate, ours.serving("apiserver")), port) == "ok\n"


def test_a_new_certificate_is_taken_up_without_a_restart(files: TlsFiles, ours: Authority) -> None:
    client = client_context(ours.certificate, ours.client("scheduler", "scheduler"))
    credentials = Credentials(files)
    with serving(credentials) as port:
        before = serial(client, port)
        assert not credentials.renew(), "nothing has changed"
        replace(files, ours.serving("next"))
        assert credentials.renew()
        assert serial(client, port) != before
        assert said_to(client, port) == "ok\n"


def test_an_authority_that_is_taken_away_opens_nothing_any_more(
    files: TlsFiles, ours: Authority, theirs: Authority
) -> None:
    mine, other = ours.client("scheduler", "scheduler"), theirs.client("scheduler", "scheduler")
    theirs_at_ours = trusting(ours)
    theirs_at_ours.load_cert_chain(other.certificate, other.key)
    credentials = Credentials(files)
    assert files.client_ca is not None
    own = files.client_ca.read_bytes()
    trusted = trusting(ours)
    trusted.load_cert_chain(mine.certificate, mine.key)
    with serving(credentials) as port:
        assert (said_to(trusted, port), said_to(theirs_at_ours, port)) == ("ok\n", "")
        files.client_ca.write_bytes(own + theirs.certificate.read_bytes())
        assert credentials.renew()
        assert (said_to(trusted, port), said_to(theirs_at_ours, port)) == ("ok\n", "ok\n")
        files.client_ca.write_bytes(theirs.certificate.read_bytes())
        assert credentials.renew()
        # By name and by address: a client that names no server in its handshake is asked by the same authority.
        for host in ("127.0.0.1", "localhost"):
            assert (said_to(trusted, port, host), said_to(theirs_at_ours, port, host)) == ("", "ok\n")


def test_a_broken_renewal_leaves_the_old_certificate_in_use(
    files: TlsFiles, ours: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = client_context(ours.certificate, ours.client("scheduler", "scheduler"))
    credentials = Credentials(files)
    with serving(credentials) as port:
        before = serial(client, port)
        pair = ours.serving("next")
        files.cert.write_bytes(pair.certificate.read_bytes())  # and its key has not come yet
        assert not credentials.renew()
        assert "those from before stay in use" in caplog.text
        assert serial(client, port) == before
        assert said_to(client, port) == "ok\n"
        files.key.write_bytes(pair.key.read_bytes())
        assert credentials.renew()
        assert serial(client, port) != before


def test_the_probe_asks_over_tls_with_the_servers_own_certificate(files: TlsFiles, tmp_path: Path) -> None:
    with serving(Credentials(files)) as port:
        settings = {
            "listen_host": "0.0.0.0",  # noqa: S104
            "listen_port": port,
            "tls_cert_file": str(files.cert),
            "tls_key_file": str(files.key),
            "tls_client_ca_file": str(files.client_ca),
        }
        config = tmp_path / "muster.yaml"
        config.write_text(yaml.safe_dump(settings))
        done = CliRunner().invoke(main, ["check", f"--config={config}"])
        assert (done.exit_code, done.output) == (0, "ok\n")
        assert probe.main([f"--config={config}"]) == 0


@pytest.mark.anyio
async def test_the_port_for_metrics_asks_for_the_same_certificates(files: TlsFiles, ours: Authority) -> None:
    client = client_context(ours.certificate, ours.client("prometheus", "prometheus"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/metrics"
        metrics = Metrics(lambda: State())
        async with metrics_page(metrics, listener, Credentials(files).context):
            async with httpx.AsyncClient(verify=client, trust_env=False) as known:
                assert "muster_synced" in (await known.get(url)).text
            async with httpx.AsyncClient(verify=trusting(ours), trust_env=False) as nameless:
                with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
                    await nameless.get(url)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("localhost", "http://localhost:1"),
        ("::1", "http://[::1]:1"),
    ],
)
def test_the_probe_finds_the_extender_at_its_address(host: str, url: str) -> None:
    assert Listener(host, 1).url == url
