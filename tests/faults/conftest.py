"""How large attacks are, what they share, and the table of what they found."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks import FINDINGS, Tally

_LONGEST = 1000.0  # seconds of one part; a hang of a case is noticed by the attack itself, much sooner

_SHOWN = 200  # findings that are kept with their texts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """An attack is cut into parts, so that several processes can share it."""
    if marker := metafunc.definition.get_closest_marker("attack"):
        full = metafunc.config.getoption("faults") == "full"
        metafunc.parametrize("part", range(marker.kwargs["parts"] if full else 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("attack"):
            # By a thread: the alarm signal is what attacks notice hangs with.
            item.add_marker(pytest.mark.timeout(_LONGEST, method="thread"))


@pytest.fixture
def tally(request: pytest.FixtureRequest, part: int) -> Iterator[Tally]:
    """Counts the cases of this part; at its end there must be as many as wanted, and nothing found."""
    marker = request.node.get_closest_marker("attack")
    full = request.config.getoption("faults") == "full"
    wanted = -(-marker.kwargs["full"] // marker.kwargs["parts"]) if full else marker.kwargs["small"]
    tally = Tally(marker.args[0], wanted, request.config.getoption("faults_seed"), part)
    yield tally
    request.node.user_properties.append(("attack", tally.as_json()))
    assert not tally.findings, "\n".join(f"{kind}: {what}" for kind, what in tally.findings[:20])
    assert tally.done >= tally.wanted


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: what processes leave behind does not depend on the disk under it."""
    memory = "/dev/shm"
    usable = os.path.isdir(memory) and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="ridgeformer-faults-", dir=memory if usable else None) as folder:
        yield Path(folder)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, and the same as JSON."""
    cases: dict[str, Counter[str]] = {}
    findings: dict[str, Counter[str]] = {}
    texts: list[str] = []
    for report in (report for some in terminalreporter.stats.values() for report in some):
        for name, values in getattr(report, "user_properties", ()):
            if name == "attack" and report.when == "teardown":
                cases.setdefault(values["attack"], Counter()).update(values["cases"])
                findings.setdefault(values["attack"], Counter()).update(kind for kind, _ in values["findings"])
                texts += [f"{kind}: {text}" for kind, text in values["findings"]]
    if not cases or not config.getoption("faults_json"):
        return
    record = {
        "record": "faults",
        "seed": config.getoption("faults_seed"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "seconds": round(time.time() - terminalreporter._session_start.time),
        "unfinished": sum(report.when == "call" for report in terminalreporter.stats.get("failed", [])),
        "attacks": [
            {"name": name, "cases": cases[name], "findings": {kind: findings[name][kind] for kind in FINDINGS}}
            for name in sorted(cases)
        ],
        "found": texts[:_SHOWN],
    }
    Path(config.getoption("faults_json")).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write = terminalreporter.write_line
    write("")
    for name in sorted(cases):
        write(f"{cases[name].total():>9,}  {name}: " + ", ".join(f"{n:,} {kind}" for kind, n in cases[name].items()))
    total = sum(findings.values(), Counter[str]())
    write("Found: " + ", ".join(f"{total[kind]} {kind}" for kind in FINDINGS) + ".")
    write(f"Seed {record['seed']}, {record['seconds']} s; parts that did not end: {record['unfinished']}.")
