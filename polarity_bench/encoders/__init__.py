"""Encoders: turn texts into vectors."""
