"""The PodGroup objects of other projects: one file for each project that has some."""
