"""The cluster as the core sees it: the nodes as arrays, and what else is known of them and around them."""
