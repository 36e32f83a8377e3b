"""Devices and their counting: selectors, patterns, lines."""
