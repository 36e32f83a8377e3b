"""`muster convert`: files with objects of Kueue's v1beta1 are rewritten to v1beta2."""
