"""Debian roots made of layers, as a container runtime makes them: debootstrap, overlays and chroot.

The cache has a folder for each layer, under a key of all that decides it. Packages of Debian are as old as their layer:
`make image ARGS=--fresh` fetches them again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.image import dockerfile
from tests.image.dockerfile import Context, Stage

MIRROR = "http://deb.debian.org/debian"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_HANDED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_NOT_SLIM = ("doc", "doc-base", "groff", "info", "linda", "lintian", "locale", "man")
"""Folders of /usr/share that debian:SUITE-slim leaves empty."""


class CannotError(Exception):
    """This machine cannot make or enter such a root; the message says why."""


class BuildError(Exception):
    """An instruction failed; the message has the end of its output."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "muster" / "image"


def check() -> None:
    """Raise CannotError if no root can be entered here."""
    if os.geteuid() != 0:
        raise CannotError("debootstrap and chroot need root")
    missing = [program for program in ("unshare", "chroot", "mount") if shutil.which(program) is None]
    if missing:
        raise CannotError(f"there is no {missing[0]} on the PATH")
    with _scratch(cache()) as lower, _scratch(cache()) as upper:
        try:
            with merged(Image((lower,), ""), upper=upper) as root:
                _in_namespace(root.mount)
        except BuildError as error:
            raise CannotError(f"mounts in a namespace of its own are not allowed here: {error}") from None


def debootstrap() -> list[str]:
    """The command, fetched into the cache by apt where it is not installed. Raises CannotError."""
    if (program := shutil.which("debootstrap")) is not None:
        return [program]
    unpacked = cache() / "debootstrap"
    if not unpacked.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise CannotError("debootstrap is not installed, and there is no apt to fetch it")
        with _scratch(cache()) as directory:
            fetching = ["apt-get", "download", "--option=APT::Sandbox::User=root", "debootstrap"]
            done = subprocess.run(fetching, cwd=directory, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CannotError(f"debootstrap is not installed, and apt cannot fetch it: {done.stderr.strip()}")
            [package] = directory.glob("*.deb")
            subprocess.run(["dpkg", "--extract", package, directory / "root"], check=True)
            (directory / "root").rename(unpacked)
    where = f"DEBOOTSTRAP_DIR={unpacked / 'usr' / 'share' / 'debootstrap'}"
    return ["env", where, "sh", str(unpacked / "usr" / "sbin" / "debootstrap")]


@dataclass(frozen=True)
class Image:
    """``layers``: the lowest first. ``key`` decides the next layer."""

    layers: tuple[Path, ...]
    key: str
    env: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()

    def megabytes(self) -> int:
        """Return the size of the files of its root on disk."""
        with merged(self) as root:
            return int(_in_namespace(f"{root.mount}du --summarize --block-size=1M {root.path}").split()[0])


@dataclass(frozen=True)
class Root:
    """``mount``: the shell commands that bring the root to ``path`` in a namespace."""

    path: Path
    mount: str


@contextmanager
def merged(image: Image, upper: Path | None = None, top: Path | None = None) -> Iterator[Root]:
    """The layers as one root: read-only, unless writes go to ``upper``. ``top``: one more layer."""
    with _scratch(cache()) as directory:
        path, work = directory / "root", directory / "work"
        path.mkdir()
        work.mkdir()
        lower = [*([top] if top is not None else []), *reversed(image.layers)]
        options = f"lowerdir={':'.join(map(str, lower))}"
        options += f",upperdir={upper},workdir={work}" if upper is not None else ""
        if upper is None and len(lower) == 1:
            yield Root(path, f"mount --bind {lower[0]} {path}\nmount -o remount,ro,bind {path}\n")
        else:
            yield Root(path, f"mount -t overlay overlay -o {options} {path}\n")


def _in_namespace(script: str) -> str:
    done = subprocess.run(namespace(script), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"exit code {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def namespace(script: str) -> list[str]:
    """The command that runs a script in namespaces of its own: mounts and processes end with it."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script]


def within(root: Root, *, writable: Sequence[str] = ()) -> str:
    """The shell commands for the mounts of every container; ``writable``: places in memory, for every user."""
    path = root.path
    mounts = [root.mount, f"mount -t proc proc {path}/proc", f"mount --rbind /dev {path}/dev"]
    return "\n".join([*mounts, *(f"mount -t tmpfs -o mode=1777 tmpfs {path}{place}" for place in writable)]) + "\n"


class Builder:
    """Carries the instructions of stages out, each on top of the layers before it."""

    def __init__(self, context: Context, uv_cache: Path | None, progress: Callable[[str], None]) -> None:
        """A builder. ``uv_cache``: a cache of uv on this machine, whose files are not fetched again."""
        self._context = context
        self._uv_cache = uv_cache
        self._progress = progress
        self._made: dict[str, Image] = {}

    def build(self, read: Sequence[Stage]) -> Image:
        """The image of the last stage. Raises CannotError or BuildError."""
        for stage in read:
            self._progress(f"FROM {stage.base}")
            image = base_of(stage.base)
            for name, text in stage.instructions:
                self._progress(f"{name} {text.partition(' ')[0]}")
                try:
                    image = self._carry_out(image, name, text)
                except BuildError as error:
                    raise BuildError(f"{name} {text}\n{error}") from None
            self._made[stage.name] = image
        return self._made[read[-1].name]

    def _carry_out(self, image: Image, name: str, text: str) -> Image:
        match name:
            case "ENV":
                return replace(image, env={**image.env, **dockerfile.variables(text, dict(image.env))})
            case "WORKDIR":
                return replace(image, workdir=text)
            case "USER":
                return replace(image, user=text)
            case "ENTRYPOINT":
                return replace(image, entrypoint=tuple(json.loads(text)))
            case "EXPOSE":  # a hint for people
                return image
            case "COPY":
                return self._copy(image, dockerfile.copy(text))
            case _:
                return self._run(image, text)

    def _run(self, image: Image, command: str) -> Image:
        made = _layer(image, f"RUN {command} in {image.workdir} with {sorted(image.env.items())}")
        with _making(made) as layer:
            if layer is not None:
                with merged(image, upper=layer) as root:
                    _in_namespace(within(root, writable=["/run"]) + self._script(root, image, command))
                for place in ("run", "proc", "dev"):  # mounts, not content
                    shutil.rmtree(layer / place, ignore_errors=True)
        return _with(image, made)

    def _script(self, root: Root, image: Image, command: str) -> str:
        env, lines = dict(image.env), [f"mkdir -p {root.path}{image.workdir} {root.path}/run/build"]
        env |= {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
        # The network of this machine: its resolver, and the authorities that it trusts, a proxy's too.
        lines.append(f"mount --bind /etc/resolv.conf {root.path}/etc/resolv.conf")
        if AUTHORITIES.exists():
            lines.append(f"cp -L {AUTHORITIES} {root.path}/run/build/authorities")
            env |= dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT"), "/run/build/authorities")
        if self._uv_cache is not None:
            lines.append(f"mkdir {root.path}/run/build/uv\nmount --bind {self._uv_cache} {root.path}/run/build/uv")
            env["UV_CACHE_DIR"] = "/run/build/uv"
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in env.items())
        inside = shlex.quote(f"cd {image.workdir} && {command}")
        return "\n".join([*lines, f"chroot {root.path} /usr/bin/env -i {variables} /bin/sh -c {inside}"])

    def _copy(self, image: Image, copying: dockerfile.Copy) -> Image:
        if copying.stage:
            return self._copy_from(image, self._made[copying.stage], copying)
        files = [(source, path) for source in copying.sources for path in self._context.files(source)]
        digest = hashlib.sha256()
        for _, path in files:
            digest.update(f"{path.relative_to(self._context.root)} {path.stat().st_mode}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        made = _layer(image, f"COPY {copying} in {image.workdir} {digest.hexdigest()}")
        with _making(made) as layer:
            for source, path in files if layer is not None else []:
                assert layer is not None
                top = self._context.root / source
                to = layer / str(Path(image.workdir, copying.target)).lstrip("/")
                if top.is_dir():
                    to /= path.relative_to(top)
                elif copying.target.endswith("/"):
                    to /= path.name
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
        return _with(image, made)

    def _copy_from(self, image: Image, other: Image, copying: dockerfile.Copy) -> Image:
        made = _layer(image, f"COPY {copying} from {other.key}")
        with _making(made) as layer:
            if layer is not None:
                [source], to = copying.sources, layer / copying.target.lstrip("/")
                to.parent.mkdir(parents=True)
                with merged(other) as root:
                    _in_namespace(f"{root.mount}cp --archive {root.path}{source} {to}")
        return _with(image, made)


def base_of(image: str) -> Image:
    """Make the equivalent of debian:SUITE-slim: Debian's essential packages without documents. Raises CannotError."""
    suite = dockerfile.suite_of(image)
    made = cache() / f"debian-{suite}-slim"
    with _making(made) as root:
        if root is not None:
            command = [*debootstrap(), "--force-check-gpg", "--variant=minbase", suite, str(root), MIRROR]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                output = f"{done.stdout[-2000:]}{done.stderr[-1000:]}"
                raise CannotError(
                    f"debootstrap {suite} failed (elsewhere than on Debian it needs debian-archive-keyring): {output}"
                )
            for name in _NOT_SLIM:
                shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)
            for place in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
                shutil.rmtree(root / place)
                (root / place).mkdir()
            excluded = "".join(f"path-exclude /usr/share/{name}/*\n" for name in _NOT_SLIM)
            (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(excluded)
            (root / "etc/resolv.conf").write_text("")
    return Image((made,), made.name)


def _layer(image: Image, what: str) -> Path:
    return cache() / f"layer-{hashlib.sha256(f'{image.key} {what}'.encode()).hexdigest()[:24]}"


def _with(image: Image, layer: Path) -> Image:
    layer.touch()  # used last: prune() takes the oldest
    return replace(image, layers=(*image.layers, layer), key=layer.name)


@contextmanager
def _making(made: Path) -> Iterator[Path | None]:
    """A folder that becomes ``made`` when the block ends well; None if there is one already."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            yield None
            return
        before = os.umask(0o022)  # the image's user has to read the files of this user
        try:
            with _scratch(cache()) as directory:
                (directory / "layer").mkdir()
                yield directory / "layer"
                (directory / "layer").rename(made)
        finally:
            os.umask(before)


@contextmanager
def _scratch(within: Path) -> Iterator[Path]:
    within.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=within, prefix=".making-") as directory:
        yield Path(directory)


def prune(image: Image) -> None:
    """Remove layers and scratch folders of earlier builds that no build has used within the hour."""
    for folder in (*cache().glob("layer-*"), *cache().glob(".making-*")):
        if folder not in image.layers and folder.stat().st_mtime < time.time() - 3600:
            shutil.rmtree(folder, ignore_errors=True)
