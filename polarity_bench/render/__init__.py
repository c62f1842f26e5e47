"""Tables, charts and pages from values; knows nothing of polarity."""
