"""The kinds of jobs that are planned before their pods exist: one small file for each, over one interface."""
