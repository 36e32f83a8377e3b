"""Measurements of Muster on a real control plane and of the core alone: `muster bench --help`.

A benchmark (`benchmark.py`) is a list of steps. Each step builds a stage of its own (`stage.py`), does one thing
there, and returns one run: a struct of plain figures. Runs are kept in a JSON file (`record.py`). The tables on the
terminal and in benchmarks/results/README.md are both made from this file (`report.py`), so that text and data cannot
disagree.
"""
