"""Jobs that are planned before their pods exist, and what else makes pods: how they are started, kept and stopped."""
