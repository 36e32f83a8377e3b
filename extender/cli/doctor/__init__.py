"""`muster doctor`: look at a live cluster from outside for every known way to set Muster up wrongly.

``gather`` reads the facts, the modules of checks are pure functions from facts to findings, and ``examine``
combines them. A check that could not be made is reported, never left out silently.
"""
