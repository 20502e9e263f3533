"""Executable artifacts: a recurrence compiled ahead of its calls, as guarded variants, in one file."""
