"""What is known of kube-scheduler: how far its queue is, what it refuses, and how it is led and preempts."""
