"""Training: examples, losses, training loops, and the files of a run."""
