"""The tenants of a cluster in a fresh index: the index that is kept up to date must agree."""

from __future__ import annotations

from policies.placement.tenants import Tenants
from policies.steps import finish


def validate_tenants(tenants: Tenants) -> None:
    """Read-only."""
    tenants._settle()
    fresh = Tenants()
    for owner, tenant in tenants:
        fresh._in.setdefault(tenant.namespace, {})[owner] = tenant
        fresh._note(owner, tenant)
    kept, rebuilt = (tenants._in, tenants._taking, tenants._averse), (fresh._in, fresh._taking, fresh._averse)
    assert kept == rebuilt, "the tenants are mixed up"
    for name, indexes in tenants._indexes.items():
        for key, index in indexes.items():
            if (name, key) in tenants._unready:
                continue
            assert index == finish(fresh._index(name, key)), f"the index of {key} in {name} is stale"
