"""Render the texts that leave the core for their readers: operators read all names, namespaces their own."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import AnswerBind, Effect, Evict, Reached, Report, SuspendJob
from extender.core.limits import Limits
from policies.model.mentions import discreet, full

WITH_TEXT = frozenset((AnswerBind, Evict, Reached, Report, SuspendJob))
"""The effects whose texts may name workloads."""


def for_namespace(text: str, namespace: str, limits: Limits) -> str:
    """For whoever reads Events and statuses there."""
    return full(text, namespace) if limits.names_others else discreet(text, namespace)


def readable(effect: Effect, limits: Limits) -> Effect:
    """The same effect, its text as its readers may see it."""
    match effect:
        case Report(key=key, message=text):
            return replace(effect, message=for_namespace(text, key.namespace, limits), full=full(text, key.namespace))
        case SuspendJob(job=job, reason=text):
            return replace(effect, reason=for_namespace(text, job.key.namespace, limits))
        case Evict(namespace=namespace, reason=text):
            return replace(effect, reason=for_namespace(text, namespace, limits))
        case AnswerBind(error=text):
            # kube-scheduler writes it into an Event of the pod.
            return replace(effect, error=for_namespace(text, "", limits)) if text else effect
        case Reached(detail=text):
            return replace(effect, detail=full(text))  # for the log
    return effect
