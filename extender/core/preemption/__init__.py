"""Preemption: who may give way, who is chosen, and the room that is kept until the victims have gone."""
