"""Each kind of job as it is read, started, suspended and cleaned."""
