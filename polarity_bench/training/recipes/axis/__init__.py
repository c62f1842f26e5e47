"""Recipe `axis`: polarity as a coordinate of its own."""
