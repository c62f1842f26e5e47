"""Tasks: task types, the catalogue of tasks, and the SentEval protocols."""
