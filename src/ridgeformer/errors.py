"""The errors users meet. Each carries one sentence that says what is wrong and what would be right."""

from __future__ import annotations


class RidgeformerError(Exception):
    """Base of all errors raised on purpose; the command line prints it and exits with code 2."""


class InputError(RidgeformerError):
    """An argument, a file or an environment variable is not what it must be.

    Not a ValueError: the parser of the command line would catch those and wrap the sentence in words of its own.
    """


class InterruptedRunError(RidgeformerError):
    """The user stopped a run; what was done is saved, and the message says how to go on."""
