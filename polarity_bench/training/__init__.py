"""Training: examples, losses, the trainer, and what a run leaves behind."""
