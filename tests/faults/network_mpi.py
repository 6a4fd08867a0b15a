#!/usr/bin/env python3
"""The faults of network.py that a job of Open MPI or MPICH may meet, with the mpirun of one of them on the first machine.

    tests/faults/network_mpi.py [--tries N] [--seed S] [--at-once N] [FAULT ...]

mpirun starts its helpers on the other machines by a script in place of ssh. Each try draws which
MPI it is.
"""
import os
import shutil
import sys

from jobs import ROOT, Failed, Missing, run_all
from network import SocketFaults
from network_jobs import PATIENCE, STEPS, add_options

# Started as if by ssh, on the machine of the address: a machine of its own also has a name of its own.
AGENT = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
declare -A names=(%s)
exec ip netns exec "${names[$host]}" unshare --uts bash -c "hostname machine-${host##*.}; mount --bind /dev/null /etc/resolv.conf; $*"
"""
RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}


class MpiFaults(SocketFaults):
    names = ["delayed", "lost_packets", "down_briefly", "killed", "stopped", "slowed"]
    backoff = 2  # an MPI leaves it to the system when TCP repeats a packet
    ended = r"rank (\d+): process \d+ \([^)]*\) was killed by SIGKILL"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        found = [mpi for mpi in RANK if shutil.which(f"mpirun.{mpi}")]
        self.mpi = self.rng.choice(found) if found else None
        if self.mpi == "openmpi":
            self.launcher_seconds = 3  # its mpirun sends SIGTERM, waits, and sends SIGKILL

    def agent(self):
        """The script that stands for ssh."""
        names = " ".join(f"[{self.machines.address(machine)}]={name}" for machine, name in enumerate(self.machines.names))
        path = self.work / "agent"
        path.write_text(AGENT % names)
        path.chmod(0o755)
        return path

    def mpirun(self):
        counts = [len(self.ranks_of(machine)) for machine in range(len(self.machines.names))]
        hosts = ",".join(f"{self.machines.address(machine)}:{count}" for machine, count in enumerate(counts))
        start = [self.agent(), self.machines.address(0), f"exec mpirun.{self.mpi} -n {self.ranks}"]
        if self.mpi == "mpich":
            return [*start, "-hosts", hosts, "-launcher", "ssh", "-launcher-exec", self.agent(), "-iface", "eth0"]
        devices = [word for layer in ("oob", "btl") for word in ("--mca", f"{layer}_tcp_if_include", "eth0")]
        return [*start, "--host", hosts, "--mca", "plm_rsh_agent", self.agent(), "--mca", "btl", "tcp,self", *devices]

    def started(self, *options, steps=STEPS, timeout=PATIENCE, out=None):
        """mpirun, and with it all ranks."""
        if not self.mpi:
            raise Missing("there is no mpirun.openmpi and no mpirun.mpich")
        job = self.job(self.experiment(steps, timeout), out)
        job.start(*options, before=map(str, self.mpirun()), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return job

    def launchers(self, ranks):
        """mpirun starts them all."""
        return [0]

    def program(self, job, rank):
        for pid in self.machines.processes():
            try:
                variables = open(f"/proc/{pid}/environ", "rb").read().decode().split("\0")
                if f"{RANK[self.mpi]}={rank}" in variables and os.readlink(f"/proc/{pid}/exe").startswith(f"{ROOT}/"):
                    return int(pid)
            except OSError:
                pass  # it has ended
        raise Failed(f"rank {rank} has no program: {job.errors()}")


if __name__ == "__main__":
    sys.exit(run_all(MpiFaults, __doc__, add_options))
