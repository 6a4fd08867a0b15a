#!/usr/bin/env python3
"""Provokes faults of the network between machines, and of processes there, and counts what comes of them.

    tests/faults/network.py [--tries N] [--seed S] [--at-once N] [FAULT ...]

A job has 2 to 8 processes on 2 to 4 machines, which are network namespaces with a switch between them (machines.py), and
trains two variants; the fault comes in the second one, at a random step. The job `goes on` if it trains to its end with the
bits of a run without a fault. Otherwise it `fails` cleanly: all processes end in the time that the fault allows, with the
exit code and an error that names the right rank and the cause, and the results have the first variant. No process may be
left in a namespace. `worst` is the longest time from the fault to the end of a job that fails, and the longest fault of
those that go on. Needs root, network namespaces and /dev/net/tun. The last line is `N passed, N failed`.
"""
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from jobs import Failed, SmallDisk, expect, run_all, send
from network_jobs import FOR_EVER, GRACE, LATE, NO_RESPONSE, SILENCE, STEPS, NetworkFaults, add_options


class SocketFaults(NetworkFaults):
    names = ["delayed", "lost_packets", "down_briefly", "down_for_most_of_a_minute", "down_for_minutes", "down_for_long",
             "partition", "machine_vanishes", "vanishes_without_timeout", "killed", "stopped", "slowed", "full_disk",
             "disk_of_one_machine", "late_rank", "too_late_rank",
             "two_jobs_on_one_port", "wrong_world_size", "twin", "right_interface", "wrong_interface", "clocks"]

    # ---- links -----------------------------------------------------------------------------------------------------

    def delayed(self):
        """packets take 1 to 50 ms, and up to as long again by chance, so that they overtake"""
        delay = self.rng.uniform(0.001, 0.05)
        self.machines.change(self.machines.all_links(), delay=delay, jitter=delay * self.rng.random())
        self.expect_whole(self.started(steps=STEPS // 2), steps=STEPS // 2)
        return True, delay

    def lost_packets(self):
        """1 to 10 % of the packets are lost"""
        self.machines.change(self.machines.all_links(), delay=0.001, loss=self.rng.uniform(0.01, 0.1))
        begin = time.monotonic()
        self.expect_whole(self.started(steps=STEPS // 2), steps=STEPS // 2)
        return True, time.monotonic() - begin

    def outlast(self, seconds, timeout):
        """The job goes on after the links of a machine were down."""
        job = self.started(timeout=timeout)
        links = self.machines.links_of(self.some_machine())
        begin = self.at_some_step(job)
        self.machines.change(links, is_down=True)
        time.sleep(seconds)
        self.machines.change(links, is_down=False)
        self.expect_whole(job)
        return True, time.monotonic() - begin

    def down_briefly(self):
        """the links of a machine are down for 1 to 20 s, for less than the timeout"""
        seconds = self.rng.uniform(1, 4) if self.rng.random() < 0.7 else self.rng.uniform(4, 20)
        return self.outlast(seconds, timeout=seconds * self.backoff + 3)

    def down_for_most_of_a_minute(self):
        """the links of a machine are down for 20 to 50 s, with a timeout of 300 s"""
        return self.outlast(self.rng.uniform(20, 50), timeout=300)

    def down_for_minutes(self):
        """the links of a machine are down for longer than the minute in which it must respond, with a timeout of 300 s"""
        job = self.started(steps=FOR_EVER, timeout=300)
        links = self.machines.links_of(self.some_machine())
        begin = self.at_some_step(job)
        self.machines.change(links, is_down=True)
        silent = [(rank,) for rank in range(self.ranks)]  # each side names the other
        seconds = self.expect_answer(job, begin, 60 + GRACE + SILENCE, NO_RESPONSE, silent)
        self.expect_first_variant(job)
        self.expect_none_left()
        return False, seconds

    def cut(self, links):
        """The answer to links that are down for longer than the timeout."""
        timeout = self.rng.randrange(3, 7)
        job = self.started(steps=FOR_EVER, timeout=timeout)
        begin = self.at_some_step(job)
        self.machines.change(links, is_down=True)
        right = [pair for one, other in links for pair in itertools.product(self.ranks_of(one), self.ranks_of(other))]
        right += [(other, one) for one, other in right]
        seconds = self.expect_answer(job, begin, timeout + GRACE + SILENCE, LATE, right)
        self.expect_first_variant(job)
        self.expect_none_left()
        return False, seconds

    def down_for_long(self):
        """the link between two machines is down for longer than the timeout of 3 to 6 s"""
        return self.cut([self.rng.sample(range(len(self.machines.names)), 2)])

    def partition(self):
        """no packet passes between two groups of machines, with a timeout of 3 to 6 s"""
        machines = list(range(len(self.machines.names)))
        self.rng.shuffle(machines)
        count = self.rng.randrange(1, len(machines))
        return self.cut(self.machines.between(machines[:count], machines[count:]))

    def vanish(self, timeout, within, cause):
        """A machine vanishes without a last packet; the processes of the others end."""
        job = self.started(steps=FOR_EVER, timeout=timeout)
        machine = self.some_machine()
        lost = self.ranks_of(machine)
        begin = self.at_some_step(job)
        self.machines.change(self.machines.links_of(machine), is_down=True)
        send([pid for rank in lost for pid in (job.processes[rank].pid, job.program(rank))], signal.SIGKILL)
        seconds = self.expect_answer_for(lost, job, begin, within, cause)
        self.expect_none_left()
        return False, seconds

    def machine_vanishes(self):
        """a machine vanishes without a last packet, with a timeout of 3 to 6 s"""
        timeout = self.rng.randrange(3, 7)
        return self.vanish(timeout, timeout + GRACE + SILENCE, LATE)

    def vanishes_without_timeout(self):
        """a machine vanishes without a last packet, with a timeout of 300 s"""
        return self.vanish(300, 60 + GRACE + SILENCE, NO_RESPONSE)

    # ---- processes -------------------------------------------------------------------------------------------------

    def killed(self):
        """kill -9 of a process"""
        job = self.started(steps=FOR_EVER)
        rank = self.rng.randrange(self.ranks)
        begin = self.at_some_step(job)
        send([self.program(job, rank)], signal.SIGKILL)
        seconds = self.expect_answer_for([rank], job, begin, GRACE, self.ended)
        self.expect_none_left()
        return False, seconds

    def stopped(self):
        """a process is stopped for good, with a timeout of 3 to 6 s"""
        timeout = self.rng.randrange(3, 7)
        job = self.started(steps=FOR_EVER, timeout=timeout)
        rank = self.rng.randrange(self.ranks)
        begin = self.at_some_step(job)
        pid = self.program(job, rank)
        send([pid], signal.SIGSTOP)
        seconds = self.expect_answer_for([rank], job, begin, timeout + GRACE)
        send([pid], signal.SIGKILL)
        self.expect_none_left()
        return False, seconds

    def slowed(self):
        """a process is slowed 50 times, in turns of 2 ms of 100"""
        job = self.started()
        begin = self.at_some_step(job)
        pid = self.program(job, self.rng.randrange(self.ranks))
        while job.processes[0].poll() is None:
            send([pid], signal.SIGSTOP)
            time.sleep(0.098)
            send([pid], signal.SIGCONT)
            time.sleep(0.002)
        self.expect_whole(job)
        return True, time.monotonic() - begin

    # ---- disks -----------------------------------------------------------------------------------------------------

    def full_disk(self):
        """the disk of the results, which the machines share, is full when a checkpoint is saved"""
        with SmallDisk(self.work / "disk", "4m") as disk:
            self.train(self.experiment(steps=STEPS // 2), out=disk.folder / "out")
            disk.fill(leave=self.rng.randrange(8192))
            begin = time.monotonic()
            job = self.started("--resume", out=disk.folder / "out")
            codes = job.codes()
            seconds = time.monotonic() - begin
            expect(5 in codes and set(codes) <= {4, 5} and "No space left on device" in job.errors(), f"{codes}: {job.errors()}")
            self.expect_first_variant(job)
            disk.empty()
            self.expect_whole(self.started("--resume", out=disk.folder / "out"))
            super().end()
            return False, seconds

    def disk_of_one_machine(self):
        """a machine without rank 0 cannot write to the disk of the results for a while, and loses checkpoints"""
        out = self.work / "shared"
        out.mkdir()
        machine = self.rng.randrange(1, len(self.machines.names))
        self.machines.change(self.machines.all_links(), delay=0.02)  # each step takes a while
        job = self.job(self.experiment(), out)
        for rank in range(self.ranks):
            before = self.machines.command(self.machine_of[rank])
            if self.machine_of[rank] == machine:  # its view of the disk is its own
                before += ["sh", "-c", 'mount --bind "$0" "$0" && exec "$@"', out]
            self.start(job, rank, "--set", "train.save_every=2", before=before)
        begin = self.at_some_step(job)
        self.remount(job, machine, out, "ro")
        job.wait_for_words("is lost")
        self.remount(job, machine, out, "rw")
        seconds = time.monotonic() - begin
        self.expect_whole(job)
        lost = json.loads((out / "summary.json").read_text())["variants"][1]["lost_checkpoints"]
        expect(lost and "Read-only file system" in lost[0]["why"], f"lost: {lost}")
        return True, seconds

    def remount(self, job, machine, folder, mode, patience=30):
        """Changes how the processes of a machine may use the folder, when none of them is writing there."""
        end = time.monotonic() + patience
        for rank in self.ranks_of(machine):
            command = ["nsenter", "--mount", f"--target={job.program(rank)}", "mount", "-o", f"remount,bind,{mode}", folder]
            while (done := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
                expect("busy" in done.stderr and time.monotonic() < end, f"rank {rank}: {done.stderr}")
                time.sleep(0.02)

    # ---- starting --------------------------------------------------------------------------------------------------

    def start_others(self, job, late, **environment):
        for rank in range(self.ranks):
            if rank != late:
                self.start(job, rank, **environment)

    def late_rank(self):
        """a process starts 1 to 20 s later than the others"""
        seconds = self.rng.uniform(1, 20)
        job = self.job(self.experiment())
        late = self.rng.randrange(self.ranks)
        self.start_others(job, late)
        time.sleep(seconds)
        self.start(job, late)
        self.expect_whole(job)
        return True, seconds

    def too_late_rank(self):
        """a process starts when the others have given up, after HEDDLE_RENDEZVOUS_SECONDS"""
        patience = {"HEDDLE_RENDEZVOUS_SECONDS": str(self.rng.randrange(1, 4))}
        job = self.job(self.experiment())
        late = self.rng.randrange(self.ranks)
        begin = time.monotonic()
        self.start_others(job, late, **patience)
        job.codes(patience=60)
        self.start(job, late, **patience)
        codes = job.codes(patience=60)
        seconds = time.monotonic() - begin
        expect(codes == [4] * self.ranks, f"{codes}: {job.errors()}")
        named = "rank 0 at" if late == 0 else rf"ranks? ([\d, ]* )?{late}(, [\d, ]*)? did not connect"
        expect(re.search(named, job.errors()), job.errors())
        self.expect_none_left()
        return False, seconds

    def two_jobs_on_one_port(self):
        """another job, with another secret, starts at the port where rank 0 waits for its ranks"""
        job = self.job(self.experiment())
        self.start(job, 0)
        self.wait_until_listening(job)
        other = self.job(self.experiment())
        other.port = job.port
        begin = time.monotonic()
        for rank in range(self.ranks):
            self.start(other, rank, HEDDLE_JOB_SECRET="of another job")
        codes = other.codes()
        seconds = time.monotonic() - begin
        expect(codes == [2] * self.ranks, f"{codes}: {other.errors()}")
        expect("cannot listen on port" in other.error(0), other.errors())
        expect(all("HEDDLE_JOB_SECRET" in other.error(rank) for rank in range(1, self.ranks)), other.errors())
        for rank in range(1, self.ranks):
            self.start(job, rank)
        self.expect_whole(job)
        return True, seconds

    def wait_until_listening(self, job, patience=30):
        """Until rank 0 listens at the port of the job."""
        listens = f":{job.port:04X} 00000000:0000 0A"
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                if listens in Path(f"/proc/{job.program(0)}/net/tcp").read_text():
                    return
            except (Failed, OSError):
                pass
            time.sleep(0.02)
        raise Failed(f"rank 0 does not listen: {job.error(0)}")

    def expect_turned_away(self, job, wrong, causes):
        """The rank that is wrong ends with 2, the others with 4 once they have waited. One of them names a cause."""
        begin = time.monotonic()
        codes = job.codes(patience=60)
        seconds = time.monotonic() - begin
        expect(codes == [2 if rank in wrong else 4 for rank in range(self.ranks)], f"{codes}: {job.errors()}")
        expect(any(cause in job.errors() for cause in causes), job.errors())
        self.expect_none_left()
        return False, seconds

    def wrong_world_size(self):
        """a process has a WORLD_SIZE that is not that of the others"""
        job = self.job(self.experiment())
        odd = self.rng.randrange(self.ranks)
        for rank in range(self.ranks):
            self.start(job, rank, size=self.ranks + (rank == odd), HEDDLE_RENDEZVOUS_SECONDS="3")
        wrong = [odd] if odd else range(1, self.ranks)
        return self.expect_turned_away(job, wrong, [f"rank {rank} of {self.ranks + (rank == odd)}" for rank in wrong])

    def twin(self):
        """two processes have the same rank: the job ends, or one of them comes too late"""
        job = self.job(self.experiment())
        twin = self.rng.randrange(self.ranks)
        begin = time.monotonic()
        for rank in [*range(self.ranks), twin]:
            self.start(job, rank, HEDDLE_RENDEZVOUS_SECONDS="5")
        codes = job.codes()
        seconds = time.monotonic() - begin
        refused = self.ranks if codes[twin] == 0 else twin
        if codes[refused] in (2, 4) and codes.count(0) == self.ranks:
            self.expect_whole(job, refused)
            return True, seconds
        expect(set(codes) <= {2, 4} and f"two processes are rank {twin}" in job.errors(), f"{codes}: {job.errors()}")
        self.expect_none_left()
        return False, seconds

    def right_interface(self):
        """HEDDLE_INTERFACE is the connected one of two interfaces, by its name or its subnet"""
        job = self.job(self.experiment())
        for rank in range(self.ranks):
            self.start(job, rank, HEDDLE_INTERFACE=self.rng.choice(["eth0", "10.77.0.0/16"]))
        self.expect_whole(job)
        return True, 0

    def wrong_interface(self):
        """HEDDLE_INTERFACE of a process is missing or not connected"""
        job = self.job(self.experiment())
        wrong = self.rng.randrange(self.ranks)
        interface = self.rng.choice(["eth1", "eth9", "10.78.0.0/16", "10.79.0.0/16"])
        for rank in range(self.ranks):
            chosen = {"HEDDLE_INTERFACE": interface} if rank == wrong else {}
            self.start(job, rank, HEDDLE_RENDEZVOUS_SECONDS="3", **chosen)
        begin = time.monotonic()
        codes = job.codes(patience=60)
        seconds = time.monotonic() - begin
        if not any(codes):  # no other rank had to connect to it
            self.expect_whole(job)
            return True, seconds
        causes = ["HEDDLE_INTERFACE", f"rank {wrong} at 10.78."]
        expect(set(codes) <= {2, 4} and any(cause in job.errors() for cause in causes), f"{codes}: {job.errors()}")
        self.expect_none_left()
        return False, seconds

    # ---- clocks ----------------------------------------------------------------------------------------------------

    def clocks(self):
        """the clocks of the machines differ by up to ten days (the time of day only where `faketime` is installed)"""
        job = self.job(self.experiment())
        differences = [self.rng.randrange(864000) for _ in self.machines.names]
        for rank in range(self.ranks):
            seconds = str(differences[self.machine_of[rank]])
            before = [*self.machines.command(self.machine_of[rank]),
                      "unshare", "--time", "--monotonic", seconds, "--boottime", seconds, "--fork"]
            if shutil.which("faketime"):
                before += ["faketime", "-f", f"-{seconds}s"]
            self.start(job, rank, before=before, FAKETIME_DONT_FAKE_MONOTONIC="1")
        self.expect_whole(job)
        return True, 0


if __name__ == "__main__":
    sys.exit(run_all(SocketFaults, __doc__, add_options))
