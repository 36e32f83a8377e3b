"""The login of a full installation: the official client reads a kubeconfig, or the credentials of a pod."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, refresh_token
from kubernetes.aio.config.incluster_config import SERVICE_TOKEN_FILENAME
from kubernetes.aio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, load_kube_config
from yaml import YAMLError

from extender.config.reading import UnreadableYamlError, read_yaml


class OfficialLogin:
    """A Login by a configuration of the official client, with its connections.

    ``loader``: that client's reader of the kubeconfig, which can refresh its token; None in a pod.
    """

    def __init__(self, configuration: Configuration, loader: Any = None) -> None:
        # Watches stay open, one for each kind of the cluster. With a limit the last of them would never begin.
        configuration.connection_pool_maxsize = 0
        # aiohttp would look for proxies and .netrc, in a thread, before every request: 0.7 ms of CPU for each write.
        proxy = configuration.proxy or _proxy(configuration.host)
        configuration.client_session_kwargs = {"trust_env": False, "proxy": proxy}
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self.host: str = configuration.host
        self.authority = Path(configuration.ssl_ca_cert) if configuration.ssl_ca_cert else None
        self.server_name: str | None = configuration.tls_server_name or None
        self.direct = not proxy
        self.tls: ssl.SSLContext | None = self._rest.ssl_context
        self._refreshing: asyncio.Task[None] | None = None
        if loader is not None:
            # Tokens of cloud logins expire.
            refreshing = refresh_token(loader, configuration)  # type: ignore[no-untyped-call]
            self._refreshing = asyncio.create_task(refreshing)

    async def authorization(self) -> str | None:
        token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return token

    def session(self) -> aiohttp.ClientSession:
        """The official client's session, without its ``request``, which is more general and costs 50 us."""
        return self._rest._create_pool_manager()

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()


async def log_in(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> OfficialLogin:
    """Log in by that kubeconfig, else $KUBECONFIG or ~/.kube/config, else in-cluster.

    ``context``: a context of the kubeconfig; by default its current one. Raises ValueError or OSError.
    """
    configuration = Configuration()
    path = _kubeconfig(kubeconfig)
    if path is None and context is not None:
        raise ValueError(f"there is no kubeconfig {_usual()}, and so no context {context}")
    loader: Any = None
    try:
        if path is None:
            load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration, try_refresh_token=False
            )
        else:
            for file in filter(None, path.split(os.pathsep)):
                read_yaml(Path(file))  # the official client reads a file whatever its aliases expand to
            loader = await load_kube_config(  # type: ignore[no-untyped-call]
                path, context, client_configuration=configuration, persist_config=False
            )
    except ConfigException as error:
        raise ValueError(_plainly(error, path, context)) from None
    except UnreadableYamlError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except (AttributeError, KeyError, TypeError, ValueError, YAMLError, RecursionError):
        raise ValueError(f"{path} is not a kubeconfig") from None
    if (program := _silent_program(loader, configuration)) is not None:
        raise ValueError(f"the program {program}, which {path} names, gave no credentials")
    if urlsplit(configuration.host).scheme not in ("http", "https"):
        raise ValueError(f"the server of {path} is {configuration.host!r}, without https:// before it")
    if (token := Path(SERVICE_TOKEN_FILENAME) if loader is None else _token_file(loader)) is not None:
        configuration.refresh_api_key_hook = TokenFile(token).refresh  # type: ignore[assignment]
    return OfficialLogin(configuration, loader)


def _plainly(error: ConfigException, path: str | None, context: str | None) -> str:
    if path is None:
        return f"there is no kubeconfig {_usual()}, and this is no pod of a cluster: {error}"
    if context is not None and f"name {context} in " in str(error):
        return f"there is no context {context} in {path}"
    return str(error)


def _silent_program(loader: Any, configuration: Configuration) -> str | None:
    """The credential program that gave no credentials. The official client only logs its failure, and goes on."""
    user = None if loader is None else loader._user
    if user is None or "exec" not in user or configuration.api_key or getattr(loader, "cert_file", None):
        return None
    return str(user["exec"].safe_get("command"))


def _token_file(loader: Any) -> Path | None:
    """The file from which the kubeconfig's user reads a token; None if it has no such file."""
    user = loader._user
    if user is None or loader.provider or "tokenFile" not in user or any(key in user for key in ("token", "exec")):
        return None
    return Path(loader._get_base_path(user.path), user["tokenFile"])


def _kubeconfig(named: str | os.PathLike[str] | None) -> str | None:
    """The kubeconfig to use, or None for the credentials of the pod."""
    if named is not None:
        if not Path(named).is_file():
            raise FileNotFoundError(f"there is no kubeconfig {os.fspath(named)}")
        return os.fspath(named)
    usual = [path for path in _usual().split(os.pathsep) if Path(path).is_file()]
    return os.pathsep.join(usual) or None


def _usual() -> str:
    """The paths that kubectl reads; an empty $KUBECONFIG counts as unset."""
    return KUBE_CONFIG_DEFAULT_LOCATION or str(Path.home() / ".kube" / "config")


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address."""
    address = urlsplit(url)
    if address.hostname is None or proxy_bypass(address.netloc):
        return None
    return getproxies().get(address.scheme)


class TokenFile:
    """A bearer token in a file that a kubelet or ``muster token`` renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def refresh(self, configuration: Configuration) -> None:
        """Read the token again if the file has changed. Called before every request; a look at the file takes 2 us.

        If it cannot be read, the last token is used. It may still be valid; otherwise the API server refuses it.
        """
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return
            token = self._path.read_text().strip()
        except (OSError, ValueError):
            return
        if token:
            configuration.api_key["BearerToken"] = f"Bearer {token}"
            self._seen = seen
