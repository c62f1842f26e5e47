"""Two encoders compared query by query, as a page."""
