"""What the recipe `axis` is made of: probes of frozen vectors, and encoders tuned for classes."""
