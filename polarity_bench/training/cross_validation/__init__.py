"""Cross-validation of classifiers: the same rows for every method, each fold kept as it comes."""
