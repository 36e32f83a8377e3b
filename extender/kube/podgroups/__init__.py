"""The PodGroup objects of other projects, one file for each project."""
