"""Quota: who may use how much of which flavor, who lends it to whom, and whose turn it is."""
