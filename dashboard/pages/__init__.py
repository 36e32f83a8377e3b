"""The pages for browsers: one file for each, with its template in `templates/`, and the files that they load."""

from __future__ import annotations

from fastapi import APIRouter

from dashboard.pages import day, overview, queues, reasons, static, topology, workload, workloads
from dashboard.pages.refusals import refused
from dashboard.pages.sharing import Contents

__all__ = ["Contents", "refused", "router"]

router = APIRouter(include_in_schema=False)
for page in (workloads, workload, overview, topology, queues, day, reasons, static):
    router.include_router(page.router)
