"""The fault campaign: core and driver in a model of the control plane, with faults and a referee (docs/proof.md)."""
