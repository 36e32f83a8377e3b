"""What is shown of a running Muster: metrics, logs, views and explanations."""
