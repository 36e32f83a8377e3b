"""The kinds of jobs that are planned before their pods exist: one small file for each, over one interface.

A kind says where its pod templates are, and how many pods each makes. ``read.py`` makes a job of an object by that
alone, ``change.py`` starts, suspends and cleans it, and ``own.py`` makes kinds of the settings. A TrainJob is read in
the JobSet that is made of it.
"""
