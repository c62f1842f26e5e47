"""Training loops, shared by the recipes."""
