"""The command line: `scanweaver` (main.py) and `scanweaver-opt` (opt.py)."""
