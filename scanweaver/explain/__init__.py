"""Explanations: what was proved of a recurrence, where its values are computed, how it is run. Read from its stages."""
