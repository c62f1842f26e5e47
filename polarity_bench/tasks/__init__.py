"""Tasks: types, the catalogue, and the toolkit SentEval."""
