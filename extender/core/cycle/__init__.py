"""The admission cycle: quota, then nodes and devices, then commit, evict, or wait (read ``cycle.py`` first)."""
