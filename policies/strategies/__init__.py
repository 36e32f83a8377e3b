"""The policies that ship, one in a file: where gangs go, and how good nodes are."""
