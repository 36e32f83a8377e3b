"""The quota objects that people have, ``kueue.x-k8s.io``, read into the nouns of ``policies.model.queues``."""
