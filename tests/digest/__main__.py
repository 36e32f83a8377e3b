"""Hash what the core asks for, in seeds of the campaign and in every script of tests/core: `make digest`.

A refactoring changes none of it. `--base REVISION` makes the digests of that revision as well, with its own code in a
worktree, and names the seeds and the scripts that differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import typer

from devcluster.progress import Terminal
from tests.digest.effects import digest_of, recorded
from tests.documents.pages import ROOT
from tests.simulation.campaign import SeedError, play
from tests.simulation.verifying import SelfChecks

Digests = Mapping[str, list[str]]
"""The digest of each core in a seed or a script, by the seed's number or the script's name."""


def of_seed(seed: int) -> list[str]:
    """Return the digests of the cores of a seed: one, and another one after each restart."""
    # The second core of a self-check is asked for nothing that is carried out.
    with recorded() as streams, patch.object(SelfChecks, "look", return_value=[]):
        try:
            play(seed, every=0)
        except SeedError as error:
            return [*(stream.digest for stream in streams.values()), f"failed: {str(error).splitlines()[0]}"]
    return [stream.digest for stream in streams.values()]


def of_seeds(start: int, count: int, progress: Terminal) -> Digests:
    """Return the digests of seeds, played by a process on each core of the machine."""
    by_seed: dict[str, list[str]] = {}
    seeds = range(start, start + count)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, digests in zip(seeds, pool.map(of_seed, seeds, chunksize=4), strict=True):
            by_seed[str(seed)] = digests
            progress(f"playing seeds, {len(by_seed):,} of {count:,}")
    return by_seed


def of_scripts(progress: Terminal) -> Digests:
    """Return the digests of all tests in tests/core."""
    progress("the scripts of tests/core")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "digests.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.digest.scripts", "--digests", str(path)]
        command += ["--hypothesis-seed", "1"]  # so that Hypothesis chooses the same examples in both checkouts
        command += ["-n", "2", "--dist", "load", "tests/core"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        digests: Digests = json.loads(path.read_text())
        return digests


def made(hash_seed: str, *options: str, root: Path = ROOT) -> dict[str, Digests]:
    """Make all digests of a checkout in a process of that hash seed."""
    command = [sys.executable, "-m", "tests.digest", *options, "--json"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout or done.returncode)
    digests: dict[str, Digests] = json.loads(done.stdout)
    return digests


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Check a revision out, beside this checkout, while the block lasts."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", path, revision], cwd=ROOT, check=True)
        try:
            yield path
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", path], cwd=ROOT, check=True)


def summary(of: Digests) -> str:
    """Return one digest of many. Neither the names of scripts nor their order counts: both may move to other files."""
    return digest_of(sorted(digest for digests in of.values() for digest in digests))


def differences(before: Digests, now: Digests) -> list[str]:
    """Name the seeds and the scripts whose digests are others, or that are in one of both alone."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def main(
    seeds: Annotated[int, typer.Option(min=0, help="How many seeds of the campaign.")] = 150,
    start: Annotated[int, typer.Option(min=1, help="The first of them.")] = 1,
    hash_seeds: Annotated[str, typer.Option(help="Values of PYTHONHASHSEED, with commas.")] = "1",
    base: Annotated[str, typer.Option(help="A revision to compare with.")] = "",
    scripts: Annotated[bool, typer.Option(help="Take the scripts of tests/core, too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print each digest, for one hash seed.")] = False,
) -> None:
    """Hash what the core asks for, in seeds of the campaign and in the scripts of tests/core.

    Exit code 0: the digests are equal, under each hash seed and to those of --base. 1: some differ.
    """
    progress = Terminal()
    if as_json:
        digests = {"seeds": of_seeds(start, seeds, progress), "scripts": of_scripts(progress) if scripts else {}}
        progress.done()
        typer.echo(json.dumps(digests))
        return
    options = [f"--seeds={seeds}", f"--start={start}", "--scripts" if scripts else "--no-scripts"]
    first, *others = hash_seeds.split(",")
    now = made(first, *options)
    compared = {f"PYTHONHASHSEED={other}": made(other, *options) for other in others}
    if base:
        with checkout(base) as path:
            compared[base] = made(first, *options, root=path)
    for what in ("seeds", "scripts"):
        typer.echo(f"{what:<8} {len(now[what]):>6,} {summary(now[what])}")
    typer.echo(f"digest          {digest_of(summary(now[what]) for what in ('seeds', 'scripts'))}")
    apart = {other: [*differences(theirs["seeds"], now["seeds"])] for other, theirs in compared.items()}
    for other, theirs in compared.items():
        if summary(theirs["scripts"]) != summary(now["scripts"]):
            apart[other] += differences(theirs["scripts"], now["scripts"])
        typer.echo(f"{len(apart[other])} differ from {other}" + "".join(f"\n  {name}" for name in apart[other]))
    raise typer.Exit(1 if any(apart.values()) else 0)


if __name__ == "__main__":
    typer.run(main)
