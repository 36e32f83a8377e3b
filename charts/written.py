"""Everything in charts/muster that is made and not written by hand."""

from __future__ import annotations

import re

import yaml

from charts.templates import CHART, digests, templates
from charts.values import schema, table
from devcluster.binaries import kubernetes_version, minors

_ABOUT_IMAGES = """\
# The digests of a release's images, and the kube-scheduler that is tested with each minor version of the API server.
"""
_TABLE = re.compile(r"(?<=<!-- values: make chart -->\n).*?(?=\n<!-- end of values -->)", re.DOTALL)


def written() -> dict[str, str]:
    """Return each file by its path in the chart."""
    readme = (CHART / "README.md").read_text()
    return {
        **templates(),
        "files/images.yaml": _images(),
        "values.schema.json": schema(),
        "README.md": _TABLE.sub(lambda _: table(), readme),
    }


def _images() -> str:
    releases = {minor: kubernetes_version(minor) for minor in minors()}
    known = {"digests": digests(), "newest": next(iter(releases.values())), "releases": releases}
    return f"{_ABOUT_IMAGES}{yaml.safe_dump(known, sort_keys=False)}"
