"""The driver that carries out the core's effects: pure, run by the event loop and by the simulator alike.

``driver.py`` decides which write goes out when, what is sent again, and which events answer it. ``runner.py`` has the
event loop, the clock and the log, ``election.py`` whether this replica may act, and ``quarantine.py`` the objects that
the core has failed on.
"""
