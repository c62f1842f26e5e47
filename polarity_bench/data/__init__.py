"""Data of tasks: finding files (`sources`), reading rows (`readers`) and the splits (`split`)."""
