"""A throw-away extender that binds: it keeps kube-scheduler waiting at the bind of chosen pods, or refuses it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from devcluster.api import Api
from devcluster.threaded import Threaded


class Holder(Threaded):
    """Holds the binds of all pods whose name has the prefix, and binds every other pod at once."""

    def __init__(self, api: Api, prefix: str) -> None:
        self.prefix = prefix
        self.asked = 0
        self.cut = 0
        self.rejects = False
        self._api = api
        self._outcome: str | None = None
        self._held: dict[str, asyncio.Future[str]] = {}
        self._url = ""
        super().__init__()

    @property
    def held(self) -> int:
        """Binds that wait for their answer now."""
        return len(self._held)

    def entry(self, timeout: str = "600s") -> dict[str, Any]:
        """The entry of the extender in KubeSchedulerConfiguration."""
        return {
            "urlPrefix": self._url,
            "filterVerb": "filter",
            "bindVerb": "bind",
            "httpTimeout": timeout,
            "nodeCacheCapable": True,
            "ignorable": False,
        }

    def settle(self, error: str = "") -> None:
        """Answer the binds that are held, and all that come: refuse them with this error, or bind where it is empty."""
        self._loop.call_soon_threadsafe(self._settle, error)

    def _settle(self, error: str) -> None:
        self._outcome = error
        for waiting in self._held.values():
            if not waiting.done():
                waiting.set_result(error)

    async def _serve(self) -> None:
        runner = web.AppRunner(web.Application(client_max_size=1 << 26), handler_cancellation=True, shutdown_timeout=1)
        runner.app.router.add_post("/filter", self._filter)
        runner.app.router.add_post("/bind", self._bind)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        self._url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _filter(self, request: web.Request) -> web.Response:
        question = await request.json()
        names = question["NodeNames"]
        if self.rejects and question["Pod"]["metadata"]["name"].startswith(self.prefix):
            return web.json_response({"NodeNames": [], "FailedAndUnresolvableNodes": dict.fromkeys(names, "kept back")})
        return web.json_response({"NodeNames": names})

    async def _bind(self, request: web.Request) -> web.Response:
        question = await request.json()
        error = ""
        if question["PodName"].startswith(self.prefix):
            self.asked += 1
            error = await self._decided(str(question["PodUID"])) if self._outcome is None else self._outcome
        if not error:
            await asyncio.get_running_loop().run_in_executor(None, self._post, question)
        return web.json_response({"Error": error})

    async def _decided(self, uid: str) -> str:
        waiting: asyncio.Future[str] = self._loop.create_future()
        self._held[uid] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:  # kube-scheduler has gone
            self.cut += 1
            raise
        finally:
            self._held.pop(uid)

    def _post(self, question: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{question['PodNamespace']}/pods/{question['PodName']}/binding"
        self._api.create(
            path,
            {
                "metadata": {"name": question["PodName"], "uid": question["PodUID"]},
                "target": {"kind": "Node", "name": question["Node"]},
            },
        )
