"""A zoo of models that others made, and what happens to each of them here."""
