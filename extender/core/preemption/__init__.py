"""Preemption: candidates, the search for victims, and the room that is kept until they have gone."""
