"""Model files from anywhere: cut off, corrupt, absurd or malicious ones are one InputError each, and run no code."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core import model_file
from ridgeformer.core.validation import shortened
from support import one_sentence, refusal

# --- making files -----------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"format": 1, "kind": "diag", "dim": 3, "info": {}}
VALUES = np.ones(4, np.float32).tobytes()  # p and q of one layer and one head
# Characters of a message: the path, and what the safetensors parser says, at most a list of its element types. What a
# file holds must not fill the terminal.
LONGEST = 1000


def entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def tensors(dtype: str = "F32", shape: Any = (1, 1, 2)) -> dict[str, Any]:
    return {"p": entry(dtype, list(shape), 0, 8), "q": entry(dtype, list(shape), 8, 16)}


def assemble(header: str | bytes, body: bytes = VALUES, length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else header.encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + body


def build(metadata: Any = GOOD, entries: dict[str, Any] | None = None, body: bytes = VALUES) -> bytes:
    """A file with this metadata (an object, or the text itself) and these tensor entries."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    header = {"__metadata__": {"ridgeformer": text}, **(tensors() if entries is None else entries)}
    return assemble(json.dumps(header), body)


def refuse(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(rf.InputError) as caught:
        rf.load(path)
    assert type(caught.value) is rf.InputError
    message = one_sentence(caught.value, LONGEST)
    assert str(path) in message
    return message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.safetensors"


def test_file_made_by_hand_loads(path: Path) -> None:
    """The files below differ from this one in one place each; without it, they might fail for another reason."""
    path.write_bytes(build())
    model = rf.load(path)
    assert (model.kind, model.dim, model.flatten().tolist()) == ("diag", 3, [1.0] * 4)


# --- cut off and damaged ----------------------------------------------------------------------------------------------


def saved(tmp_path: Path) -> bytes:
    rf.LinearTransformer.init("full", layers=2, dim=3).save(tmp_path / "whole")
    return (tmp_path / "whole").read_bytes()


def test_load_of_a_file_cut_off_anywhere_or_with_one_byte_more_is_refused(path: Path, tmp_path: Path) -> None:
    data = saved(tmp_path)
    shares = [0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 0.999]
    for length in (0, 1, 7, 8, 9, 10, 100, *(int(share * len(data)) for share in shares), len(data) - 1):
        refuse(path, data[:length])
    refuse(path, data + b"\0")


def test_load_of_a_file_with_any_damaged_header_byte_raises_nothing_but_input_errors(
    path: Path, tmp_path: Path
) -> None:
    """Some damage is harmless (a digit of a version), none may escape; every bit of every byte would take minutes."""
    data = saved(tmp_path)
    end, refused = 8 + int.from_bytes(data[:8], "little"), 0
    for place in range(end):
        for bit in (1 << place % 8, 0x80):
            damaged = bytearray(data)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            try:
                rf.load(path)
            except rf.InputError as error:
                one_sentence(error, LONGEST)
                refused += 1
    assert refused > end  # most of the two flips a byte


def test_load_of_a_file_that_gives_up_its_format_but_not_its_digest_is_refused(path: Path, tmp_path: Path) -> None:
    """Two faults at once: one that turns format 2 into the one without digests, and one in the weights."""
    data = bytearray(saved(tmp_path).replace(b'\\"format\\": 2', b'\\"format\\": 1'))
    assert data != saved(tmp_path)
    data[-3] ^= 1
    assert "digest" in refuse(path, bytes(data))


def test_load_of_weights_that_are_not_finite_is_refused(path: Path) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        assert "NaN" in refuse(path, build(body=np.array([1, 1, bad, 1], np.float32).tobytes()))


# --- headers ----------------------------------------------------------------------------------------------------------

HEADER = json.dumps({"__metadata__": {"ridgeformer": json.dumps(GOOD)}, **tensors()})
QUOTED = json.dumps(json.dumps(GOOD))  # the metadata as it stands in a header
P, Q = (json.dumps(entry("F32", [1, 1, 2], begin, begin + 8)) for begin in (0, 8))

HEADERS: dict[str, bytes] = {
    "length zero": assemble(HEADER, length=0),
    "length one": assemble(HEADER, length=1),
    "length short by one": assemble(HEADER, length=len(HEADER) - 1),
    "length of the whole file": assemble(HEADER, length=len(HEADER) + len(VALUES)),
    "length beyond the file": assemble(HEADER, length=10**6),
    "length of 2^32": assemble(HEADER, length=2**32),
    "length negative as a signed number": assemble(HEADER, length=2**64 - 1),
    "length of 2^63": assemble(HEADER, length=2**63),
    "no header": assemble(""),
    "null bytes": assemble(b"\0" * 64),
    "not UTF-8": assemble(b'{"\xff\xfe": 1}'),
    "UTF-16": assemble(HEADER.encode("utf-16")),
    "not an object": assemble("[1, 2, 3]"),
    "a number": assemble("5"),
    "null": assemble("null"),
    "unfinished": assemble(HEADER[:-1]),
    "nested deeply": assemble("[" * 100_000),
    "nested deeply in an object": assemble('{"a":' * 100_000),
    "a huge integer": assemble('{"a": ' + "9" * 100_000 + "}"),
    "no metadata": assemble(json.dumps(tensors())),
    "metadata of another program": assemble(json.dumps({"__metadata__": {"format": "pt"}, **tensors()})),
    "metadata null": assemble(json.dumps({"__metadata__": None, **tensors()})),
    "metadata a list": assemble(json.dumps({"__metadata__": ["ridgeformer"], **tensors()})),
    "metadata a number": assemble(json.dumps({"__metadata__": {"ridgeformer": 5}, **tensors()})),
    "metadata an object": assemble(json.dumps({"__metadata__": {"ridgeformer": GOOD}, **tensors()})),
    "metadata twice": assemble(
        f'{{"__metadata__": {{"ridgeformer": ""}}, "__metadata__": {{"ridgeformer": {QUOTED}}}, "p": {P}, "q": {Q}}}'
    ),
    "metadata key twice": assemble(
        f'{{"__metadata__": {{"ridgeformer": "{{}}", "ridgeformer": {QUOTED}}}, "p": {P}, "q": {Q}}}'
    ),
    "tensor twice": assemble(f'{{"__metadata__": {{"ridgeformer": {QUOTED}}}, "p": {P}, "p": {P}, "q": {Q}}}'),
    "tensor twice elsewhere": assemble(
        f'{{"__metadata__": {{"ridgeformer": {QUOTED}}}, "p": {Q}, "p": {P}, "q": {Q}}}'
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_load_of_a_bad_header_is_refused(path: Path, name: str) -> None:
    refuse(path, HEADERS[name])


def test_load_of_a_header_larger_than_any_model_has_is_refused(path: Path) -> None:
    refuse(path, build({**GOOD, "info": {"log": "x" * model_file.MAX_HEADER_BYTES}}))


# --- metadata ---------------------------------------------------------------------------------------------------------

BAD: dict[str, list[Any]] = {
    "format": [2, 0, "1", True, None, "1" * 100_000],
    # of another name, of other tensors, of other shapes, and what is no kind at all
    "kind": ["softmax", "full", "gdpp", ["diag"], None, "diag\ndiag", "diag" * 100_000],
    "dim": [0, -3, 10**18, 10**4000, 3.0, True, "3", None],
    "info": [[], "text", None],
}
METADATA: dict[str, Any] = {
    "empty text": "",
    "not JSON": "kind=diag",
    "unfinished": json.dumps(GOOD)[:-1],
    "two values": json.dumps(GOOD) * 2,
    "nested deeply": "[" * 100_000,
    "nested deeply in info": '{"format": 1, "kind": "diag", "dim": 3, "info": ' + '{"a":' * 100_000,
    "a list": [GOOD],
    "a string": '"diag"',
    "a number": "5",
    "null": "null",
    "NaN": '{"format": 1, "kind": "diag", "dim": 3, "info": {"loss": NaN}}',
    "infinity": '{"format": 1, "kind": "diag", "dim": 3, "info": {"loss": -Infinity}}',
    "a huge integer": '{"format": 1, "kind": "diag", "dim": ' + "9" * 100_000 + "}",
    "a key twice": '{"format": 1, "kind": "full", "kind": "diag", "dim": 3, "info": {}}',
    **{f"{key} missing": {name: GOOD[name] for name in GOOD if name != key} for key in ("format", "kind", "dim")},
    **{f"{key} {shortened(value, 12)}": {**GOOD, key: value} for key in BAD for value in BAD[key]},
}


@pytest.mark.parametrize("name", METADATA)
def test_load_of_bad_metadata_is_refused(path: Path, name: str) -> None:
    refuse(path, build(METADATA[name]))


# --- tensors ----------------------------------------------------------------------------------------------------------

# Bytes of one number of each type that is not ours; the last two are no type at all.
TYPES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "I64": 8}
TYPES |= {"C64": 8, "F128": 16, "O": 8}
SHAPES: dict[str, tuple[Any, ...]] = {
    "of one axis": (2,),
    "with layers and heads swapped for numbers": (2, 1, 1),
    "larger than the data": (1, 2, 2),
    "smaller than the data": (1, 1, 1),
    "negative": (1, -1, -2),
    "fractional": (1, 1, 2.0),
    "of strings": ("1", "1", "2"),
    "whose product overflows": (2**32, 2**32, 2),
    "whose bytes overflow": (2**62, 1, 2),
    "beyond 64 bits": (2**70, 1, 2),
}
# What takes the place of q, and how many bytes follow.
OTHER_Q: dict[str, tuple[Any, int]] = {
    "offsets that overlap": (entry("F32", [1, 1, 2], 4, 12), 16),
    "offsets that coincide": (entry("F32", [1, 1, 2], 0, 8), 16),
    "offsets with a hole": (entry("F32", [1, 1, 2], 12, 20), 20),
    "offsets reversed": (entry("F32", [1, 1, 2], 16, 8), 16),
    "offsets negative": (entry("F32", [1, 1, 2], -8, 0), 16),
    "offsets beyond the file": (entry("F32", [1, 1, 2], 2**40, 2**40 + 8), 16),
    "offsets of three numbers": ({"dtype": "F32", "shape": [1, 1, 2], "data_offsets": [8, 16, 16]}, 16),
    "shape null": ({"dtype": "F32", "shape": None, "data_offsets": [8, 16]}, 16),
    "shape missing": ({"dtype": "F32", "data_offsets": [8, 16]}, 16),
    "tensor that is no object": (5, 16),
    "types that differ": (entry("F64", [1, 1, 2], 8, 24), 24),
}


def pair(names: str, dtype: str, shape: list[int], size: int) -> tuple[dict[str, Any], bytes]:
    """Two tensors of ``size`` bytes each, and as many zeros."""
    return {name: entry(dtype, shape, i * size, (i + 1) * size) for i, name in enumerate(names)}, b"\0" * (2 * size)


TENSORS: dict[str, bytes] = {
    **{f"type {dtype}": build(GOOD, *pair("pq", dtype, [1, 1, 2], 2 * size)) for dtype, size in TYPES.items()},
    **{f"shape {name}": build(entries=tensors(shape=shape)) for name, shape in SHAPES.items()},
    **{name: build(entries={**tensors(), "q": q}, body=b"\0" * size) for name, (q, size) in OTHER_Q.items()},
    "full of another dim": build({**GOOD, "kind": "full"}, *pair("PQ", "F32", [1, 1, 2, 2], 16)),
    "shape of no axis": build(GOOD, *pair("pq", "F32", [], 4)),
    "shape of zero layers": build(GOOD, *pair("pq", "F32", [0, 1, 2], 0)),
    "more layers than a model has": build(GOOD, *pair("pq", "F32", [2000, 1, 2], 16_000)),
    "tensor missing": build(entries={"p": entry("F32", [1, 1, 2], 0, 8)}, body=VALUES[:8]),
    "no tensor": build(entries={}, body=b""),
    "tensor too many": build(entries={**tensors(), "r": entry("F32", [1], 16, 20)}, body=b"\0" * 20),
    "tensors by the thousand": build(entries=tensors() | {f"{n}": entry("F32", [0], 16, 16) for n in range(10_000)}),
    "tensor named over two lines": build(entries={"p\np": tensors()["p"], "q": tensors()["q"]}),
}


@pytest.mark.parametrize("name", TENSORS)
def test_load_of_bad_tensors_is_refused(path: Path, name: str) -> None:
    refuse(path, TENSORS[name])


# --- other files ------------------------------------------------------------------------------------------------------


class Bomb:
    """Unpickled, it would make the folder it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_load_of_a_pickle_does_not_run_it(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "proof"
    payload = pickle.dumps(Bomb(target))
    refuse(path, payload)
    refuse(path, assemble(payload))
    refuse(path, build(payload.decode("latin-1")))
    refuse(path, build(entries={**tensors(), "p": entry("O", [1], 0, len(payload))}, body=payload))
    archive = io.BytesIO()
    np.savez(archive, p=np.array([Bomb(target)], object), allow_pickle=True)
    refuse(path, archive.getvalue())
    assert not target.exists()
    pickle.loads(payload)  # the control: it would have
    assert target.is_dir()


def test_load_of_a_zip_a_text_and_a_numpy_file_is_refused(path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("p", VALUES)
    refuse(path, archive.getvalue())
    refuse(path, b"kind: diag\n" * 20)
    array = io.BytesIO()
    np.save(array, np.ones((1, 1, 2)))
    refuse(path, array.getvalue())
    refuse(path, np.random.default_rng(0).bytes(10_000))


def test_load_of_an_oversized_file_is_refused_without_reading_all_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_file, "MAX_FILE_BYTES", 100)
    assert "larger" in refuse(path, build())


def test_load_of_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("needs a file without end")
    monkeypatch.setattr(model_file, "MAX_FILE_BYTES", 1 << 20)
    with refusal("/dev/zero"):
        rf.load("/dev/zero")


def test_load_of_a_folder_or_of_nothing_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "no" / "where", "nowhere", "", "a\0b", "x" * 300):
        with refusal():
            rf.load(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_load_of_an_unreadable_file_is_refused(path: Path) -> None:
    path.write_bytes(build())
    path.chmod(0)
    with pytest.raises(rf.InputError, match=str(path)):
        rf.load(path)
