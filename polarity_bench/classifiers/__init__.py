"""Text classifiers: an encoder with a head, and with proxies if it was trained with them."""
