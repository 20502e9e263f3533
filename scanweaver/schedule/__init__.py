"""Chooses how to run a scan: the chips' limits, and the choice made from them."""
