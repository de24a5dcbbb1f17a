"""Attacks: what counts as a finding, how cases are counted, and damage of every kind, drawn from one seed."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ridgeformer import RidgeformerError

FINDINGS = (
    "unreadable runs",
    "differing bits",
    "silently different weights",
    "tracebacks",
    "hangs",
    "leftovers",
    "foreign files touched",
)
"""What an attack must never find."""
LONGEST_MESSAGE = 2100  # characters: what the package allows an error, and the names of files in it
_HANG = 30.0  # seconds; the slowest case takes one when the machine is busy


class HangError(BaseException):
    """A case takes longer than any should; not an Exception, so that nothing in between can catch it."""


class Tally:
    """What one part of an attack has done and found. Equal seeds give equal attacks."""

    def __init__(self, attack: str, wanted: int, seed: int, part: int = 0) -> None:
        self.attack, self.wanted, self.seed, self.part = attack, wanted, seed, part
        self.random = random.Random(f"{seed} {attack} {part}")
        self.cases: Counter[str] = Counter()
        """How many cases of which kind there were."""
        self.outcomes: Counter[str] = Counter()
        self.findings: list[tuple[str, str]] = []
        """(one of `FINDINGS`, what happened)."""

    @property
    def done(self) -> int:
        """Cases so far."""
        return self.cases.total()

    def find(self, kind: str, what: str) -> None:
        """Note a finding; the number of the case is enough to meet it again with the same seed."""
        assert kind in FINDINGS
        self.findings.append((kind, f"seed {self.seed}, part {self.part}, case {self.done}: {what}"))

    @contextlib.contextmanager
    def case(self, kind: str, what: Callable[[], str] = lambda: "", counted: bool = True) -> Iterator[None]:
        """One case: it may go through or be refused in one sentence, and nothing else; ``what`` describes it."""
        self.cases[kind] += counted
        try:
            with time_limit(_HANG):
                yield
            self.outcomes["went through"] += counted
        except RidgeformerError as refused:
            self.outcomes["refused"] += counted
            message = str(refused)
            if not message.isprintable() or len(message) > LONGEST_MESSAGE or not message.strip():
                self.find("tracebacks", f"{kind}: no sentence for a reader: {message!r} {what()}")
        except HangError as hang:
            self.find("hangs", f"{kind}: {what()} {_place(hang)}")
        except (KeyboardInterrupt, AssertionError):
            raise
        except BaseException as error:  # of Rust, too, whose panics are no Exceptions
            self.find("tracebacks", f"{kind}: {error!r:.300} {_place(error)} {what()}")

    def as_json(self) -> dict[str, Any]:
        """What `tests/faults/conftest.py` puts together for the table."""
        return {
            "attack": self.attack,
            "cases": dict(+self.cases),
            "outcomes": dict(+self.outcomes),
            "findings": [list(finding) for finding in self.findings],
        }

    def take(self, values: dict[str, Any]) -> None:
        """Add what another process counted, given its `as_json`."""
        self.cases.update(values["cases"])
        self.outcomes.update(values["outcomes"])
        self.findings += [(kind, what) for kind, what in values["findings"]]


def _place(error: BaseException) -> str:
    """The last lines of ours and of anybody's that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/ridgeformer/" in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*ours[-1:], *frames[-1:]))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `HangError` in what takes longer."""

    def ring(number: int, frame: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


# --- bytes ------------------------------------------------------------------------------------------------------------

_EDGES = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"9" * 400,
    b"\0" * 64,
    b"{",
    b'"',
    b"[" * 2000,
    b"\\u0000",
    b"1e999",
    b"-0",
)


def damaged(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """``data`` with one fault, as disks, copies that break off and fuzzers make them."""
    out = bytearray(data)
    place, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    begin, end = min(place, other), max(place, other)
    match rng.randrange(11):
        case 0 | 1 | 2:
            if out:
                out[place % len(out)] ^= 1 << rng.randrange(8)
        case 3:
            del out[place:]
        case 4:
            out += bytes(rng.randrange(1, 64))
        case 5:
            out[place : place + 8] = rng.randbytes(8)
        case 6:
            del out[begin : min(end, begin + 64)]
        case 7:
            out[place:place] = out[begin : min(end, begin + 64)]
        case 8:
            out[place : place + rng.randrange(2)] = rng.choice(_EDGES)
        case 9:
            digits = [spot for spot, byte in enumerate(out) if 48 <= byte <= 57]
            if digits:
                out[rng.choice(digits)] = rng.choice(b"0123456789")
        case _:
            cut = rng.choice(others) if others else b""
            out[begin:] = cut[begin:]
    return bytes(out)


# --- JSON -------------------------------------------------------------------------------------------------------------

_LEAVES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, -1e308, 5e-324, 10**15, 10**16, 2**63, 2**64, 10**400),
    *("", "x", "full", "uniform:5", "categorical:1+3", "nan", "\x1b[2J", "\u2028", "\ud800", "\0", "a" * 100_000, "∞"),
    *([], {}, [None], [[]], {"": 0}, [0] * 1000, {"kind": "full"}),
)


def twisted(value: Any, rng: random.Random) -> Any:
    """A JSON value with one place changed: another value or type, more, less, another name, or deeper."""
    nodes = list(_nodes(value))
    if not nodes:
        return _leaf(rng)
    holder, key = rng.choice(nodes)
    match rng.randrange(8):
        case 0 | 1 | 2:
            holder[key] = _leaf(rng)
        case 3:
            del holder[key]
        case 4 if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), json.loads(json.dumps(holder[key])))
        case 4:
            holder[rng.choice(("", "extra", "sha256", "kind", "__class__", "a" * 5000))] = holder.pop(key)
        case 5:
            other, place = rng.choice(nodes)
            with contextlib.suppress(KeyError, IndexError):
                holder[key] = json.loads(json.dumps(other[place]))
        case 6 if type(holder[key]) in (int, float) and abs(holder[key]) < 1e300:
            holder[key] = rng.choice((-holder[key], holder[key] * 1e6, holder[key] + 1, float(holder[key]), 1 << 70))
        case 6 if isinstance(holder[key], list):
            holder[key] = holder[key] * rng.choice((2, 50))
        case _:
            holder[key] = {"in": holder[key]} if rng.random() < 0.5 else [holder[key]]
    return value


def _leaf(rng: random.Random) -> Any:
    """One of the leaves, a copy of its own: the next twist may change it, or even put it into itself."""
    return copy.deepcopy(rng.choice(_LEAVES))


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _nodes(item)
