"""The documents are true: commands in them run, links lead somewhere, lists and pictures are complete."""
