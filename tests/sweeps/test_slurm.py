"""A sweep whose workers are jobs of a real Slurm, of one node, started here: 'make test-slurm'.

Debian's slurm-wlm and munge, run by hand in a folder of their own: no systemd, no cgroups, nothing in /etc.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ridgeformer as rf
from clusters import free_port
from running import wait_for
from sweeping import check_whole, tiny, trained_here

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
JOBS = """
jobqueue:
  slurm:
    cores: 1
    processes: 1
    memory: 500MB
    walltime: '00:10:00'
    interface: lo
    scheduler-options: {{host: 127.0.0.1, dashboard_address: null}}
    local-directory: {folder}/scratch
    log-directory: {folder}/logs
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Slurm that is up."""
    if not shutil.which("slurmctld") or not shutil.which("munged") or os.getuid() != 0:
        pytest.skip("needs root and Debian's slurm-wlm and munge: make test-slurm")
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    values = {"host": socket.gethostname().partition(".")[0], "controller": free_port(), "node": free_port()}
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, cores=os.cpu_count(), **values))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log"}
    munge = [f"--{flag}={folder / name}" for flag, name in {**files, "seed-file": "munge.seed"}.items()]
    try:
        for command in (["munged", "--force", *munge], ["slurmctld"], ["slurmd"]):
            subprocess.run(command, check=True, capture_output=True)
        assert wait_for(lambda: "idle" in output("sinfo", "--noheader"), 60), (folder / "slurmctld.log").read_text()
        yield folder
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            if (folder / f"{name}.pid").exists():
                os.kill(int((folder / f"{name}.pid").read_text()), signal.SIGTERM)


def output(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def test_sweep_on_slurm_gives_the_same_files_and_leaves_no_job(tmp_path: Path, slurm: Path) -> None:
    study, messages = tiny(2, 300), list[str]()
    (tmp_path / "slurm.yaml").write_text(JOBS.format(folder=slurm))
    where = {"cluster": tmp_path / "slurm.yaml", "workers": 2}
    result = rf.sweep(study, out=tmp_path / "out", on_message=messages.append, **where)  # type: ignore[arg-type]
    assert (len(result.finished), result.failed) == (6, {}), messages
    assert len(list((slurm / "logs").glob("*.err"))) >= 2  # of jobs that Slurm ran
    check_whole(tmp_path / "out", trained_here(study, tmp_path / "local"), cells=6)
    assert wait_for(lambda: output("squeue", "--noheader").strip() == "", 30)
