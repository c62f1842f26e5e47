"""Engines that execute the items of a sweep."""
