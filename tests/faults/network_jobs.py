"""Jobs whose processes are on several machines, and what a fault may come to there (network.py, network_mpi.py)."""
import itertools
import json
import os
import re
import time

from jobs import Faults, expect, losses
from machines import Machines

FIRST_STEPS = 3
STEPS = 40
FOR_EVER = 1000000  # steps
EXPERIMENT = {
    "name": "network", "threads": 1, "seed": 5,
    "data": {"type": "synthetic_identities", "identities": 24, "image": [1, 8, 8]},
    "model": {"type": "mlp", "hidden": [32, 32, 32], "embedding": 16}, "head": {"classes": 24},
    "train": {"batch": 48, "micro_batches": 2, "steps": FIRST_STEPS},
}
MESHES = [{"dp": 2}, {"pp": 2}, {"dp": 3}, {"dp": 4}, {"dp": 2, "pp": 2}, {"pp": 4}, {"dp": 6}, {"dp": 8}, {"dp": 4, "pp": 2}]
PATIENCE = 60  # seconds: the timeout where it does not matter

# Seconds that the processes may take to end after the timeout; where a machine is silent, TCP first has to repeat what it
# does not acknowledge; and for each process that waits for a core of this machine.
GRACE = 2.0
SILENCE = 1.0
BUSY = 0.5

# The errors that name the ranks of a fault.
LATE = r"rank (\d+), (?:call|message) \d+: [^:]*: timed out after [\d.]+ s waiting for rank (\d+)"
NO_RESPONSE = r"rank (\d+): it no longer responds"


def add_options(parser):
    parser.add_argument("--slack", type=float, default=0, help="seconds that a busy machine may take longer (default: 0)")


class NetworkFaults(Faults):
    """A try with machines of its own, and a mesh that is drawn."""

    whole = {}
    backoff = 1  # how much longer than a link is down it may take until a packet is sent again
    launcher_seconds = 0  # that a launcher takes by itself to end the processes of a job
    ended = r"rank (\d+): its process has ended"  # how a process that is killed is named

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.machines = None
        self.mesh = self.rng.choice(MESHES)
        self.ranks = self.mesh.get("dp", 1) * self.mesh.get("pp", 1)
        machines = self.rng.randrange(2, min(self.ranks, 4) + 1)
        self.machine_of = [rank * machines // self.ranks for rank in range(self.ranks)]
        self.machines = Machines(machines, self.rng.random())

    def experiment(self, steps=STEPS, timeout=PATIENCE):
        variants = [{"name": "first", "patch": {}}, {"name": "second", "patch": {"train": {"steps": steps}}}]
        return EXPERIMENT | {"mesh": self.mesh, "timeout": timeout, "variants": variants}

    def start(self, job, rank, *options, **environment):
        """Starts a rank of a job at its machine."""
        machine = self.machine_of[rank]
        launch = {"address": Machines.address(0), "before": self.machines.command(machine)} | environment
        job.start_rank(rank, launch.pop("size", self.ranks), *options, **launch)

    def started(self, *options, steps=STEPS, timeout=PATIENCE, out=None):
        """A job of all ranks."""
        job = self.job(self.experiment(steps, timeout), out)
        for rank in range(self.ranks):
            self.start(job, rank, *options)
        return job

    def at_some_step(self, job):
        job.wait_for_step(self.rng.randrange(2, STEPS // 2), "second")
        return time.monotonic()

    def launchers(self, ranks):
        """The numbers of the processes of a job that start these ranks."""
        return list(ranks)

    def program(self, job, rank):
        return job.program(rank)

    def ranks_of(self, machine):
        return [rank for rank, where in enumerate(self.machine_of) if where == machine]

    def some_machine(self):
        return self.rng.randrange(len(self.machines.names))

    def reference(self):
        """The losses of the second variant of a run without faults."""
        key = str(self.mesh)
        if key not in self.whole:
            self.whole[key] = self.train(self.experiment(), variant="second")
        return self.whole[key]

    def expect_whole(self, job, *others, steps=STEPS, patience=240):
        """The job goes on to its end with the bits of a run without a fault. `others` are processes that do not count."""
        codes = job.codes([number for number in range(len(job.processes)) if number not in others], patience)
        expect(codes == [0] * len(codes), f"{codes}: {job.errors()}")
        trained = losses(job.out, "second")
        whole = self.reference()
        expect(trained == {step: whole[step] for step in range(steps)}, "the losses differ from those of a run without faults")
        self.expect_none_left()

    def expect_none_left(self):
        left = self.machines.left_behind()
        expect(not left, f"processes are left behind: {left}")

    def expect_first_variant(self, job):
        variants = json.loads((job.out / "summary.json").read_text())["variants"]
        expect(variants[0]["name"] == "first" and variants[0]["status"] == "ok" and
               len(variants[0]["loss_per_step"]) == FIRST_STEPS, f"the summary lacks the first variant: {variants[:1]}")

    def expect_answer(self, job, begin, within, cause, right, ranks=None):
        """The processes of `ranks`, by default all, end in time. `right` are the numbers that their errors may have where
        they match `cause`."""
        numbers = self.launchers(range(self.ranks) if ranks is None else ranks)
        codes = job.codes(numbers, patience=within + 60)
        seconds = time.monotonic() - begin
        errors = "\n".join(job.error(number) for number in numbers)
        expect(codes == [4] * len(codes), f"{codes}: {errors}")
        found = {tuple(map(int, match.groups())) for match in re.finditer(cause, errors)}
        expect(found and found <= set(right), f"named are {found}: {errors}")
        busy = self.arguments.slack + BUSY * max(1, os.getloadavg()[0] / os.cpu_count())
        within += self.launcher_seconds
        expect(seconds <= within + busy, f"the job took {seconds:.1f} s to end, not {within:.1f} s: {errors}")
        return seconds

    def expect_answer_for(self, lost, job, begin, within, cause=LATE):
        """The others name one of the ranks that are lost, and the results have the first variant if rank 0 is not."""
        others = [rank for rank in range(self.ranks) if rank not in lost]
        right = itertools.product(others, lost) if cause == LATE else [(rank,) for rank in lost]
        seconds = self.expect_answer(job, begin, within, cause, right, others)
        if 0 not in lost:
            self.expect_first_variant(job)
        return seconds

    def end(self):
        super().end()
        if self.machines:
            self.machines.end()
