"""The server: kube-scheduler's four verbs without a framework, the API with FastAPI, health, metrics, limits."""
