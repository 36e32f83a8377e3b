"""Preemption, part by part: who may give way, who is chosen, and the room that is kept until they have gone."""
