"""Tests of the dashboard: its feed, who sees what, and its pages."""
