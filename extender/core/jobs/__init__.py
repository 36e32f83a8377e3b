"""Jobs that are planned before their pods exist: which are, how they are started, kept and stopped."""
