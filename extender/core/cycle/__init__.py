"""The admission cycle: quota, then nodes and devices, then commit, evict, or wait. ``cycle.py`` is to be read first."""
