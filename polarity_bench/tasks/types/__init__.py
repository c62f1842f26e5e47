"""Task types; a new one is a module here and a line in `tasks.catalogue`."""
