"""Views of a running Muster: metrics, logs, answers of the API, and how well gangs are placed."""
