"""Score encoders on tasks."""
