"""The tests, and what they share; each folder has one kind of test or one part of Muster."""
