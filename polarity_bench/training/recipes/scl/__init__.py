"""The recipe `scl`: supervised contrastive learning on NLI pairs."""
