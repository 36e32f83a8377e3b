"""Hostile input, made from a seed: on the wire, and in objects that the author of a pod can write."""
