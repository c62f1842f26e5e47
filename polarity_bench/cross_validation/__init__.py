"""Few-shot classification by repeated cross-validation."""
