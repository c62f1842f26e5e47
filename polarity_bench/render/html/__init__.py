"""HTML pages of boards."""
