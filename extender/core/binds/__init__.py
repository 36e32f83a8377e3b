"""A gang's bind requests and its release: what is held, what is being written, and what a restart finds of it."""
