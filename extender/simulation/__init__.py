"""The core and its policies under a virtual clock, in a model of the cluster around them."""
