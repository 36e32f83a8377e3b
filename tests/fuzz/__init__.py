"""Hostile input, made from a seed: what is on the wire, and what the author of a pod can have written."""
