"""`muster convert`: rewrite files with objects of Kueue's v1beta1 to v1beta2."""
