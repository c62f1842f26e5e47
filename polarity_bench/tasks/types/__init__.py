"""Task types. A new type is a module in this package and a line in `tasks.catalogue`."""
