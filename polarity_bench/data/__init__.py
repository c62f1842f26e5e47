"""Data: where the files come from (`sources`), how they read (`readers`), what a task is fed."""
