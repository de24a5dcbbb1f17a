"""Everything that reads files, as a target of attacks: files it knows, hostile ones, and what may come of them."""

from __future__ import annotations

import contextlib
import json
import random
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import ridgeformer as rf
from attacks import damaged, twisted
from made_up_results import RECORDS, made_up, made_up_baselines
from plans import TINY, train_until
from ridgeformer.core.model_file import METADATA_KEY, read_model, tensors_digest, weights_digest
from ridgeformer.core.notation import Array
from ridgeformer.plots import FIGURES, as_json
from ridgeformer.reproduction.claims import Claim, ClaimsRecord
from ridgeformer.reproduction.records import Record
from ridgeformer.reproduction.results import read_record, read_results
from ridgeformer.reproduction.training_targets import Trial, TrialsRecord
from ridgeformer.training.checkpoints import load_checkpoint
from ridgeformer.training.run_directory import RunDirectory

Finding = tuple[str, str]
"""(one of `attacks.FINDINGS`, what happened)."""


class Reader(Protocol):
    """A reader of files, as attacks see it."""

    known: list[bytes]
    """Files that are as they should be."""

    def forged(self, rng: random.Random) -> bytes:
        """A file by one who knows the format."""
        ...

    def check(self, data: bytes, forged: bool) -> Finding | None:
        """Read a file and use what it holds; a `RidgeformerError` if it is refused, which is as good as reading it."""
        ...


def hostile(reader: Reader, rng: random.Random) -> tuple[bytes, bool]:
    """(file, whether it is forged); the others are known ones with one to four faults."""
    if rng.random() < 0.4:
        return reader.forged(rng), True
    data = rng.choice(reader.known)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = damaged(data, rng, reader.known)
    return data, False


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """(header, tensors) of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: Any, body: bytes) -> bytes:
    """The reverse of `split`."""
    text = as_bytes(header)
    return len(text).to_bytes(8, "little") + text + body


def as_bytes(value: Any) -> bytes:
    """JSON text, lone surrogates as they are, half of which no UTF-8 has."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


# --- models -----------------------------------------------------------------------------------------------------------

_TYPES = {"F32": np.float32, "F64": np.float64}


class ModelReader:
    """Model files, of every kind and precision, small ones, and one of the zoo."""

    def __init__(self, folder: Path) -> None:
        info = {"task": {"dim": 2, "noise": "uniform:5"}, "evaluation": {"adjusted_loss": 0.25, "largest": None}}
        models = [
            rf.LinearTransformer.init(kind, layers=2, dim=2, heads=heads, dtype=dtype, seed=heads)
            for kind in ("gdpp", "diag", "full")
            for heads, dtype in ((1, np.float32), (2, np.float64))
        ]
        self.path = folder / "model.safetensors"
        self.known: list[bytes] = []
        self.contents: set[tuple[str, str]] = set()
        for bare in (*models, rf.load("diag-2-uniform-5")):
            model = rf.LinearTransformer(bare.kind, bare.dim, bare.parameters, info)
            model.save(self.path)
            self.known.append(self.path.read_bytes())
            self.contents.add(self._content(model))

    @staticmethod
    def _content(model: rf.LinearTransformer) -> tuple[str, str]:
        return weights_digest(model), json.dumps(model.info, sort_keys=True)

    def forged(self, rng: random.Random) -> bytes:
        """Other metadata, other tensors, and a digest that fits, where there can be one."""
        header, body = split(rng.choice(self.known))
        metadata = json.loads(header["__metadata__"][METADATA_KEY])
        if rng.random() < 0.3:
            body = damaged(body, rng)
        if rng.random() < 0.6:
            metadata = twisted(metadata, rng)
        if isinstance(metadata, dict):
            metadata.pop("sha256", None)
            if rng.random() < 0.2:
                metadata["format"] = 1
            else:
                try:
                    metadata["sha256"] = tensors_digest(metadata, _tensors(header, body))
                except (ValueError, TypeError, KeyError, OverflowError):  # nothing that could be signed
                    metadata["sha256"] = "0" * 64
        header["__metadata__"][METADATA_KEY] = json.dumps(metadata)
        return joined(twisted(header, rng) if rng.random() < 0.4 else header, body)

    def check(self, data: bytes, forged: bool) -> Finding | None:
        """A damaged file is refused or the model it was; a forged one is refused or a model like any other."""
        model = read_model(data, "a hostile file")
        if not forged and self._content(model) not in self.contents:
            return "silently different weights", "a damaged file loads as another model"
        if not all(np.isfinite(array).all() for array in model.parameters.values()):
            return "silently different weights", "a forged file loads with weights that are not finite"
        if not repr(model).replace("\n", "").isprintable():
            return "tracebacks", "a model prints what could command a terminal"
        if forged:
            model.save(self.path)
            if weights_digest(rf.load(self.path)) != weights_digest(model):
                return "differing bits", "a forged model is another one once it is saved"
        return None


def _tensors(header: dict[str, Any], body: bytes) -> dict[str, Array]:
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(body[begin:end], _TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class CheckpointReader:
    """Checkpoints of one run."""

    _KEY = "ridgeformer-checkpoint"

    def __init__(self, folder: Path) -> None:
        train_until(14, TINY, folder / "run", checkpoint_seconds=0.0)
        paths = sorted((folder / "run" / "checkpoints").iterdir())
        self.known = [path.read_bytes() for path in paths]
        self.path = folder / "hostile.safetensors"
        self.vectors = {load_checkpoint(path, TINY).state.vector.tobytes() for path in paths}

    def forged(self, rng: random.Random) -> bytes:
        """Other fields or tensors, without a digest, as older versions wrote them."""
        header, body = split(rng.choice(self.known))
        metadata = json.loads(header["__metadata__"][self._KEY])
        metadata = {name: metadata[name] for name in ("state", "history_bytes")}
        if rng.random() < 0.3:
            body = damaged(body, rng)
        header["__metadata__"][self._KEY] = json.dumps(twisted(metadata, rng) if rng.random() < 0.7 else metadata)
        return joined(twisted(header, rng) if rng.random() < 0.4 else header, body)

    def check(self, data: bytes, forged: bool) -> Finding | None:
        """What loads is a state that the run can go on from; of a damaged file it is the state that was saved."""
        self.path.write_bytes(data)
        state = load_checkpoint(self.path, TINY).state
        if not forged and state.vector.tobytes() not in self.vectors:
            return "silently different weights", "a damaged checkpoint loads as another state"
        if state.plan == TINY.plan and not TINY.finished(state):
            TINY.step(state)
        return None


# --- records ----------------------------------------------------------------------------------------------------------


_DRAWN = 8  # of so many records that load, one is drawn: that takes a hundred times as long as reading it


class RecordReader:
    """A record of results: what loads can be written, read again, and drawn."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.kind, self.folder = type(record), folder / record.record
        self.folder.mkdir()
        self.values = record.as_json()
        self.known = [json.dumps(self.values).encode()]
        self.figures = [entry for entry in FIGURES.values() if entry.needs == (record.record,)]

    def forged(self, rng: random.Random) -> bytes:
        """Other values, names and shapes in one to three places."""
        values = json.loads(self.known[0])
        for _ in range(rng.choice((1, 1, 2, 3))):
            values = twisted(values, rng)
        return as_bytes(values)

    def check(self, data: bytes, forged: bool) -> Finding | None:
        """Records have no digest: they are numbers for people, so a damaged one may only fail to be a record."""
        path = self.folder / f"{self.kind.record}.json"
        path.write_bytes(data)
        record = read_record(self.kind, path, "a command")
        if self.kind.from_json(record.as_json()).as_json() != record.as_json():
            return "differing bits", "a record is another one once it is written"
        if zlib.crc32(data) % _DRAWN == 0:
            for entry in self.figures:
                json.dumps(as_json(entry.build(read_results(self.folder))), allow_nan=False)
        return None


class RunFileReader:
    """The small files of a run: settings, result, history and times."""

    def __init__(self, folder: Path, name: str) -> None:
        rf.train(TINY, out=folder / name)
        self.directory = RunDirectory(folder / name)
        self.path = folder / name / name
        self.known = [self.path.read_bytes()]
        self.content = self._read()

    def _read(self) -> tuple[object, ...]:
        """What is read of a run without going on with it."""
        directory = self.directory
        return directory.config(), directory.finished_result()

    def forged(self, rng: random.Random) -> bytes:
        """Other values in one line."""
        lines = self.known[0].splitlines()
        if self.path.suffix == ".json":
            return as_bytes(twisted(json.loads(self.known[0]), rng))
        place = rng.randrange(len(lines))
        lines[place] = as_bytes(twisted(json.loads(lines[place]), rng))
        return b"\n".join(lines)

    def check(self, data: bytes, forged: bool) -> Finding | None:
        """Settings and result are what they were, or there are none; rows and times are rows and times."""
        self.path.write_bytes(data)
        self.directory.read_seconds()
        with contextlib.suppress(ValueError):  # as documented
            self.directory.read_history()
        config, result = self._read()
        if b'"sha256"' not in data:
            return None  # a file of an older version, which may say anything
        if config != self.content[0] or result not in (None, self.content[1]):
            return "silently different weights", f"other settings or another result from a damaged {self.path.name}"
        return None


def make_readers(folder: Path) -> dict[str, Callable[[], Reader]]:
    """Every reader by name; each is made when it is attacked, since that takes a moment."""
    losses = np.array([0.05, 0.06])
    trial = Trial("recipe", "diag", 4, "uniform:5", 2, rf.Evaluation.of(losses, losses), 10.0, 0.06, 60.0)
    others = (
        ClaimsRecord((Claim("More layers are better.", "holds", "0.05 < 0.06"),)),
        TrialsRecord({"cpu": "Xeon", "cores": 2}, 0.1, (trial,), (trial,)),
        made_up_baselines(),
    )
    made: dict[str, Record] = {name: made_up(name) for name in RECORDS} | {one.record: one for one in others}
    files = ("config.json", "result.json", "history.jsonl", "timing.jsonl")
    return {
        "model": partial(ModelReader, folder),
        "checkpoint": partial(CheckpointReader, folder),
        **{name: partial(RecordReader, folder, record) for name, record in made.items()},
        **{name: partial(RunFileReader, folder, name) for name in files},
    }
