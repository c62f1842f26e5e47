"""Text classifiers, each consisting of an encoder and a classifier head."""
