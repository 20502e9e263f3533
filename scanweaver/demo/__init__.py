"""What `scanweaver demo` runs: real input, three recurrences, and how each is measured, shown and drawn."""
