"""The decisions alone: tables of cases, and oracles by brute force and integer programs."""
