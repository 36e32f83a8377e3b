"""Jobs that are planned before their pods exist: start, upkeep, stop, capacity, and other makers of pods.

The owner of a gang (a StatefulSet or the like) can make pods only when others run. Their slots are expected while a pod
of the gang is there. All are planned together, with what the API server has added to the newest pod, and the quorum is
that of the first wave. A slot keeps its node until its pod comes, or until an earlier pod needs the room.
"""
