"""Count devices that drivers publish (DRA): which ones a claim may have, and how many of them a node has free."""
