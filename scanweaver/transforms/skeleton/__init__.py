"""The skeleton that every schedule lowers through, on GPU and CPU alike.

    for each tile of time:                               kernel.py (gpu, cpu)
        for each state n of the row:                     tile.py: loops over state axes, fused
            fold the elements of this lane's K steps     components.py
            scan the folds exclusively over lanes        scan.block_scan, where there are any
            walk `step` from the incoming state          evaluate.py: values on demand, at the outermost level
        store outputs                                    memory.py

Serial is the walk alone.
"""
