"""Encoders: loading and identifying the models that turn texts into vectors."""
