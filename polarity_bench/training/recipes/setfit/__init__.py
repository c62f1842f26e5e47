"""Recipe `setfit`: the few-shot baseline."""
