"""The recipe `setfit`: SetFit, a few-shot baseline."""
