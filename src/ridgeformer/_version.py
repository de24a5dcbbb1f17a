"""The version, in the one place that has it."""

__version__ = "0.2.0"
