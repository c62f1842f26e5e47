"""Task types. A new type needs a module here and a line in `tasks.catalogue`."""
