"""Jobs that are planned before their pods exist: start, upkeep, stop, capacity, and other makers of pods.

The owner of a gang, such as a StatefulSet, may make some pods only when others run. Their slots are expected while the
gang has a pod. All slots are planned together, with what the API server has added to the newest pod. The quorum is that
of the first wave. A slot keeps its node until its pod exists, or until an earlier pod needs the room.
"""
