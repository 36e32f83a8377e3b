"""The tests, and their shared parts; each folder has one kind of test or one part of Muster."""
