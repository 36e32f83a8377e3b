"""Two training jobs on 32 GPUs, let in alternately: without Muster neither runs, with it one does, then the other."""
