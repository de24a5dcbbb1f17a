"""What a release is checked with.

python tools/release.py bounds           # the lower bounds of our dependencies, as constraints for pip
python tools/release.py check dist       # sdist and wheel in a folder: sizes, clean installs, and the sdist's own tests
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LARGEST_WHEEL = 3_000_000  # bytes, of which the models of the zoo are most
# What anybody does first, with every warning an error: import it, ask for help, load a model, predict, measure, draw.
_FIRST_STEPS = (
    ("-W", "error", "-c", "import ridgeformer"),
    ("-m", "ridgeformer", "--version"),
    ("-m", "ridgeformer", "--help"),
    ("-m", "ridgeformer", "evaluate", "diag-4-uniform-5", "--sequences", "1000", "--baselines"),
    ("-m", "ridgeformer", "explain", "diag-2-uniform-5", "--sequences", "200", "--no-ablate", "--out", "explained"),
)


def lower_bounds() -> list[str]:
    """``name==version`` for the lower bound of each dependency, from pyproject.toml."""
    listed = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)(,.*)?", one) for one in listed]
    if None in matches:
        raise SystemExit(f"release: not every dependency has a lower bound: {listed}")
    return [f"{match[1]}=={match[2]}" for match in matches if match]


def check(folder: Path) -> None:
    """Refuse a wheel that is too large, and anything that does not work in a fresh environment."""
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    size = wheel.stat().st_size
    _say(f"{wheel.name}: {size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes")
    if size > _LARGEST_WHEEL:
        raise SystemExit(f"release: the wheel has {size:,} bytes, more than {_LARGEST_WHEEL:,}.")
    with tempfile.TemporaryDirectory() as place:
        for number, file in enumerate((wheel, sdist)):
            _install_and_try(file.resolve(), Path(place) / f"environment-{number}")
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        _say("the sdist's own tests, in an environment of its own")
        _run(["make", "test", f"PYTHON={sys.executable}"], Path(place) / sdist.name.removesuffix(".tar.gz"))


def _install_and_try(file: Path, environment: Path) -> None:
    _say(f"{file.name} in a fresh environment")
    _run([sys.executable, "-m", "venv", str(environment)], file.parent)
    python = str(environment / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(file)], environment)
    _run([python, "-m", "pip", "check"], environment)
    for step in _FIRST_STEPS:
        _run([python, *step], environment, quiet=True)


def _run(command: Sequence[str], folder: Path, quiet: bool = False) -> None:
    """Run a command without what this environment tells Python or make; its output is shown if it fails."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=folder, env=inherited, text=True, check=False, capture_output=quiet)
    if done.returncode:
        raise SystemExit(f"release: {' '.join(command)} failed with {done.returncode}.\n{done.stdout}{done.stderr}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Run one of the two."""
    match arguments:
        case ["bounds"]:
            _say("\n".join(lower_bounds()))
        case ["check", folder]:
            check(Path(folder))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
