"""Atheris, which is libFuzzer for Python, on one of the readers: it searches for files that reach new lines of code.

PYTHONPATH=tests/helpers python tests/faults/fuzz.py model 10000 13 folder    # reader, runs, seed, where to keep files

It ends at the first finding. It needs a process of its own: libFuzzer never returns, and counts the lines of what is
imported here.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

# Only what reads: counting the lines of kernels would slow everything down and lead nowhere.
READING = ["ridgeformer.core", "ridgeformer.training", "ridgeformer.reproduction", "json"]
with atheris.instrument_imports(include=READING):
    from attacks import LONGEST_MESSAGE
    from readers import hostile, make_readers
    from ridgeformer import RidgeformerError

_LONGEST = 1 << 16  # bytes of an input; records have more, and are cut to pieces
_HANG = 30  # seconds
_MEMORY = 4096  # MiB


def main(name: str, runs: int, seed: int, folder: Path) -> None:
    """Search until so many files were read."""
    reader = make_readers(folder)[name]()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(reader.known):
        (corpus / str(number)).write_bytes(data)

    def read(data: bytes) -> None:
        try:
            finding = reader.check(data, forged=True)
        except RidgeformerError as refused:
            message = str(refused)
            assert message.isprintable(), message
            assert 0 < len(message) <= LONGEST_MESSAGE, message
        else:
            assert finding is None, finding

    def mutate(data: bytes, most: int, number: int) -> bytes:
        """Half of the time as libFuzzer would, otherwise as one who knows the format."""
        if number % 2:
            return bytes(atheris.Mutate(data, most))
        return hostile(reader, random.Random(number))[0][:most]

    flags = [f"-runs={runs}", f"-seed={seed}", f"-max_len={_LONGEST}", f"-timeout={_HANG}"]
    flags += [f"-rss_limit_mb={_MEMORY}", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], read, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
