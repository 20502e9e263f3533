"""Below the IR, on the host: upstream MLIR text to a shared library, and launching it over threads."""
