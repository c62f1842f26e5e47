"""Classifiers of texts: an encoder with a head, and proxies where it was trained with some."""
