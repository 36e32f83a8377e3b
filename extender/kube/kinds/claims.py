"""Volume claims that the controller of a kind makes for each of its pods."""

from __future__ import annotations

import msgspec

from extender.kube.kinds.kind import Object, UnreadableJobError, found
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, ClaimTemplate
from extender.kube.reading.volumes import makers_of
from policies.model.storage import ClaimMaker


def claim_makers(obj: Object, path: str, stem: str = "") -> tuple[ClaimMaker, ...]:
    """The makers of volume claims at that path; a StatefulSet makes one claim of each for every pod.

    ``stem``: the pods' names without their number. Raises UnreadableJobError.
    """
    try:
        templates = msgspec.convert([*found(obj, f"{path}.*")], list[ClaimTemplate])
        return makers_of(templates, stem)
    except (UnreadableError, *UNDECODABLE) as error:
        raise UnreadableJobError(f"its volumeClaimTemplates cannot be read: {error}") from None
