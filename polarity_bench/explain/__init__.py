"""A page that compares two encoders query by query."""
