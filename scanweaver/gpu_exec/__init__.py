"""Below the IR, on a GPU: tools, lowering through `mlir-opt`, artifact, cache, driver, launching."""
