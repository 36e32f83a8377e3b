"""The books: nodes, room, quota, volumes, devices, jobs and pods that are to come, and who waits."""
