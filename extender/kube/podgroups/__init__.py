"""PodGroup objects, one file for each project that has some."""
