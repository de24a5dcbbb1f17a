"""The command line: one file a command, `main` that wires them up, and `terminal` with all that they print with.

Only this room imports tyro and rich. Commands are thin: they check what they are given before any work is done, call
the package, and show what it returns.
"""
