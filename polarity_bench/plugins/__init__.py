"""Ways in from outside: the tasks in mteb (`mteb`), scores inside a trainer (`trainer`)."""
