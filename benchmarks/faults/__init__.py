"""The campaign of faults on a real control plane: each fault, how often it struck, and its outcome."""
