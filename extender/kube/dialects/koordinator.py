"""The keys of Koordinator's gangs, and of the first coscheduling plugins, which it reads as well
(koordinator apis/extension/coscheduling.go).

Pods state the size of the gang themselves, or name a PodGroup of ``scheduling.sigs.k8s.io/v1alpha1``. Other keys say
how long a gang may wait, and whether its members give up together (``mode``). They concern room that waiting members
hold, and with Muster they hold none.
"""

from __future__ import annotations

import msgspec

from extender.kube.dialects.words import Words
from extender.kube.reading.objects import UNDECODABLE, Meta
from extender.kube.reading.plain import quoted
from policies.model import Dialect

_GANG = "gang.scheduling.koordinator.sh/"
_SIGS = "pod-group.scheduling.sigs.k8s.io"
NAME, MIN_AVAILABLE, GROUPS = f"{_GANG}name", f"{_GANG}min-available", f"{_GANG}groups"
NETWORK_TOPOLOGY = f"{_GANG}network-topology-spec"
SIGS_MIN_AVAILABLE, SIGS_GROUPS = f"{_SIGS}/min-available", f"{_SIGS}/groups"

OTHER_GANGS = "{} is {}: Muster does not start several gangs together; give all their pods one gang"
_LONGEST = 4096


def other_gangs(meta: Meta, name: str) -> str | None:
    """Why the gang is refused: it names other gangs that are to start with it. None if it names none."""
    own = {f"{meta.namespace}/{name}"}
    for key in (GROUPS, SIGS_GROUPS):
        for text in meta.values_of(key):
            if text and not own.issuperset(_listed(text)):
                return OTHER_GANGS.format(key, quoted(text))
    return None


def _listed(text: str) -> list[str]:
    """A list of ``NAMESPACE/NAME`` in JSON. Any other text counts as one name that no gang has."""
    try:
        return msgspec.json.decode(text, type=list[str]) if len(text) <= _LONGEST else [""]
    except UNDECODABLE:
        return [""]


WORDS = Words(
    Dialect.KOORDINATOR,
    (NAME, f"{_SIGS}/name", _SIGS),
    (MIN_AVAILABLE, SIGS_MIN_AVAILABLE),
    refused=other_gangs,
    more=(GROUPS, SIGS_GROUPS),
)
