"""Files that commands write: whole or not at all, and an unwritable file is known before the work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from extender.cli.output import Output, OutputError, check_apart


def test_nothing_is_there_until_it_is_written_and_then_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    output = Output(path)
    assert not list(tmp_path.iterdir())
    output.write(b"whole")
    assert path.read_bytes() == b"whole"
    Output(path).write(b"anew")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"anew"]


def test_what_was_there_stays_if_it_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"before")
    output = Output(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match=r"report.json: No space left on device"):
        output.write(b"after")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_bytes(b"before")
    link.symlink_to(target)
    Output(link).write(b"after")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"after")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    Output(pipe).write(b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_what_cannot_be_written_is_known_at_once(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no directory"):
        Output(tmp_path / "no" / "where")
    with pytest.raises(OutputError, match="is a directory; name a file"):
        Output(tmp_path)
    with pytest.raises(OutputError, match="/proc/report"):
        Output(Path("/proc/report"))


def test_a_standard_output_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="standard output is closed"):
        Output(Path("-")).write(b"lost")


def test_an_output_is_neither_an_input_nor_another_output(tmp_path: Path) -> None:
    first, other = tmp_path / "one", tmp_path / "other"
    check_apart({"--json": first, "--html": None}, {"--trace": other})
    with pytest.raises(OutputError, match="--trace and --json are the same file"):
        check_apart({"--json": tmp_path / "." / "one"}, {"--trace": first})
    with pytest.raises(OutputError, match="--json and --html are the same file"):
        check_apart({"--json": first, "--html": first}, {"--trace": other})
