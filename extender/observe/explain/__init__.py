"""Answers to people's questions: why a gang waits, what would start it, what the domains have left."""
