"""Tasks: the task types, the catalogue and the SentEval protocols."""
