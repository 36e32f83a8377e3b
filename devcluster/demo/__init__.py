"""The demo: two training jobs on 32 GPUs, created in turn, without Muster and with it."""
