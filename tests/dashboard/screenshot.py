"""The picture of the dashboard in README: `python -m tests.dashboard.screenshot` renews docs/dashboard.png."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import sync_playwright

from devcluster.chromium import FLAGS, chromium
from tests.dashboard.connected import People, shown
from tests.dashboard.served import serving
from tests.dashboard.world import busy
from tests.documents.pages import ROOT

PICTURE = ROOT / "docs" / "dashboard.png"
_PAGE = "map?gang=team-a/pretrain-8b"


def main() -> None:
    """Show the map of a cluster that the real core runs, to a real Chromium."""
    with ThreadPoolExecutor(1) as thread:
        cluster = thread.submit(asyncio.run, shown(busy())).result()
    with serving(cluster, People(ann="*")) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        page = browser.new_page(
            viewport={"width": 960, "height": 700}, extra_http_headers={"Authorization": "Bearer ann"}
        )
        page.goto(f"{served.address}/{_PAGE}")
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
