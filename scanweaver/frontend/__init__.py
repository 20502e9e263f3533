"""The front end: a signature, one traced step, and the binding of a call's arguments."""
