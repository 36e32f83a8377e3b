"""Load tests with an open model: what both measure, judge and write, and the parts of `muster bench gangs`."""
