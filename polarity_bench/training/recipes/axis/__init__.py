"""The recipe `axis`: a separate coordinate for polarity."""
