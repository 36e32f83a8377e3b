"""Views of a running Muster: metrics, logs, views, and how well gangs are placed."""
