"""Nodes as clouds and data centres have them: one YAML file for each platform, made into Node objects by `nodes`."""
