"""Recipe `scl`: supervised contrastive learning on NLI."""
