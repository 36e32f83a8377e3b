"""docs/released has every public name of the code, and each name of a release is still there, or is an alias."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from extender.cli.doctor.facts import Facts
from extender.cli.doctor.gather import _Reading
from extender.config.aliases import ALIASES, SETTINGS, Alias
from extender.config.settings import SettingsError, load
from extender.kube.client import Kube
from extender.probe import listener_from
from tests.documents.names import PAGE, Names, names, released, version
from tests.documents.pages import ROOT

RELEASED = released()
DATED = re.compile(r"^## \[([0-9.]+)\] - \d", re.MULTILINE)
"""A release in the changelog, once it is made."""


@pytest.fixture(scope="module")
def now() -> Names:
    return names()


def numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def ended(releases: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """The old names whose aliases a release has announced the end of, if that is now: kind and name."""
    return {
        (kind, old)
        for release in releases
        for kind, aliases in release["aliases"].items()
        for old, until in aliases.items()
        if numbers(until) <= numbers(version())
    }


def gone(release: dict[str, Any], now: Names, ended: Collection[tuple[str, str]]) -> list[str]:
    """Each name that the release had or read, and that now is neither there nor an alias."""
    then = [
        (kind, name) for section in ("names", "aliases") for kind, listed in release[section].items() for name in listed
    ]
    return [
        f"{kind}: {name}"
        for kind, name in then
        if name not in now.get(kind, ()) and name not in ALIASES.get(kind, {}) and (kind, name) not in ended
    ]


def test_the_page_has_every_kind_of_name(now: Names) -> None:
    cells = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert {kind for cell in cells for kind in re.findall(r"`(.*?)`", cell)} == set(now)


def test_each_release_of_the_changelog_has_written_its_names_down() -> None:
    made = {*DATED.findall((ROOT / "CHANGELOG.md").read_text()), "0.1.0"}
    assert made <= set(RELEASED), "python -m tests.documents.names writes them down"


def test_the_release_that_is_made_has_all_names_of_the_code(now: Names) -> None:
    if (release := RELEASED.get(version())) is not None:
        lacking = {kind: sorted({*listed} - {*release["names"].get(kind, ())}) for kind, listed in now.items()}
        assert not any(lacking.values()), f"python -m tests.documents.names adds {lacking}"


@pytest.mark.parametrize("release", RELEASED)
def test_each_name_of_a_release_is_there_or_is_an_alias(release: str, now: Names) -> None:
    lost = gone(RELEASED[release], now, ended(RELEASED.values()))
    assert lost == [], "a public name is gone: keep it, or add it to extender/config/aliases.py"


def test_a_name_that_is_gone_is_noticed(now: Names) -> None:
    then = {"names": {"settings": ["hold_timeout_s", "hold_for_s"], "reasons": ["NoRoom"]}, "aliases": {}}
    assert gone(then, now, ()) == ["settings: hold_for_s"]


def test_an_alias_goes_in_the_release_that_was_announced_and_not_before(now: Names) -> None:
    had = {"names": {"settings": ["hold_for_s"]}, "aliases": {}}
    read = {"names": {}, "aliases": {"settings": {"hold_for_s": "9.0.0"}}}
    for release in (had, read):
        assert gone(release, now, ended([had, read])) == ["settings: hold_for_s"]
    read["aliases"]["settings"]["hold_for_s"] = version()
    for release in (had, read):
        assert gone(release, now, ended([had, read])) == []


def test_an_alias_stands_for_a_name_and_goes_in_a_later_release(now: Names) -> None:
    for kind, aliases in ALIASES.items():
        for old, alias in aliases.items():
            assert alias.name in now[kind]
            assert numbers(alias.until) > numbers(version()), f"{old} may go now: take it and its alias out"


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALIASES, SETTINGS, {"hold_for_s": Alias("hold_timeout_s", "9.0.0")})


@pytest.mark.usefixtures("renamed")
def test_a_setting_is_read_under_its_old_name_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (file := tmp_path / "muster.yaml").write_text("hold_for_s: 7")
    assert load(file).hold_timeout_s == 7
    assert caplog.messages == ["hold_for_s is now called hold_timeout_s; 9.0.0 no longer reads the old name"]


@pytest.mark.usefixtures("renamed")
def test_a_variable_is_read_under_its_old_name_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "MUSTER_HOLD_FOR_S": "7"})
    assert load(None).hold_timeout_s == 7
    assert caplog.messages[0].startswith("MUSTER_HOLD_FOR_S is now called MUSTER_HOLD_TIMEOUT_S; 9.0.0")


@pytest.mark.usefixtures("renamed")
def test_both_names_at_once_are_refused(tmp_path: Path) -> None:
    (file := tmp_path / "muster.yaml").write_text("hold_for_s: 7\nhold_timeout_s: 8")
    with pytest.raises(SettingsError) as refused:
        load(file)
    assert str(refused.value) == "hold_for_s: is now called hold_timeout_s, which is there, too; take hold_for_s out"


def test_the_probe_reads_old_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(ALIASES, SETTINGS, {name: Alias(f"listen_{name}", "9.0.0") for name in ("host", "port")})
    (file := tmp_path / "muster.yaml").write_text("port: 7")
    listener = listener_from(str(file), {"MUSTER_HOST": "::1"})
    assert (listener.host, listener.port) == ("::1", 7)


@pytest.mark.usefixtures("renamed")
def test_the_doctor_reads_old_names() -> None:
    facts, kube = Facts(load(None)), cast(Kube, None)
    reading = _Reading(kube, "kube-system", facts)
    reading._adopt("muster.yaml", "hold_for_s: 7", settings=True, scheduler=False)
    assert (facts.settings.hold_timeout_s, facts.skipped) == (7, [])
    reading._adopt("muster.yaml", "hold_for_s: 7\nhold_timeout_s: 8", settings=True, scheduler=False)
    (finding,) = facts.skipped
    assert (finding.code, "is now called hold_timeout_s" in finding.what) == ("BadSettings", True)
