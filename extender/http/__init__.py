"""The server: kube-scheduler's four verbs without a framework, the API with FastAPI, health, metrics, limits.

``wire.py`` and ``verbs.py`` answer kube-scheduler. SECURITY.md says how much callers may send, how slowly, under which
name and with which certificate.
"""
