"""Answers to people's questions: why a gang is where it is, what would make it fit, and what the domains have left."""
