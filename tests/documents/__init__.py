"""The documents are true: what they say to type runs, what they link to exists, what they list is what there is."""
