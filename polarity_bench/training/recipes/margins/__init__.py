"""The recipe `margins`: contrastive losses with margins on generated examples."""
