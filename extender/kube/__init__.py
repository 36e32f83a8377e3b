"""The only code that talks to Kubernetes: follow objects, read them into nouns, write what the core asks for.

``reflector.py`` lists and watches the resources of ``following.py``. ``convert.py`` and the packages below make nouns
of their objects. ``writer.py``, ``jobs.py`` and ``reports.py`` write.
"""
