"""Integrations with mteb, sentence-transformers and the Hugging Face hub."""
