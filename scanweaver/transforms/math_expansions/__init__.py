"""Scalar functions as sequences of arithmetic, for any float type and any vector of it."""
