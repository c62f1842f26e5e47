"""Losses that encoders and classifiers are trained with."""
