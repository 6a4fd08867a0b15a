"""Machines of a network, as namespaces on this one. Needs root, namespaces and /dev/net/tun."""
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from jobs import Missing


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Machines:
    """Some machines with one address each, and the switch between them (switch.py)."""

    networks = itertools.count()

    def __init__(self, count, seed):
        first = f"heddle-{os.getpid()}-{next(Machines.networks)}"
        self.names = [f"{first}-{machine}" for machine in range(count)]
        self.switch = None
        try:
            for name in self.names:
                call("ip", "netns", "add", name)
            self.switch = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("switch.py"), str(seed), *self.names],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if self.switch.stdout.readline() != "ready\n":
                raise Missing("a TUN device cannot be made")
            for machine, name in enumerate(self.names):
                call("ip", "-n", name, "link", "set", "lo", "up")
                for device, address in enumerate([self.address(machine), self.unconnected(machine)]):
                    call("ip", "-n", name, "address", "add", f"{address}/24", "dev", f"eth{device}")
                    call("ip", "-n", name, "link", "set", f"eth{device}", "up")
        except (Missing, OSError):
            self.end()
            raise

    @staticmethod
    def address(machine):
        return f"10.77.0.{machine + 1}"

    @staticmethod
    def unconnected(machine):
        """The address of an interface that leads nowhere."""
        return f"10.78.{machine}.1"

    def command(self, machine):
        """The words before a command that runs on this machine."""
        return ["ip", "netns", "exec", self.names[machine]]

    def between(self, some, others):
        return [[one, other] for one in some for other in others if one != other]

    def all_links(self):
        return list(itertools.combinations(range(len(self.names)), 2))

    def links_of(self, machine):
        return self.between([machine], range(len(self.names)))

    def change(self, links, **condition):
        """`delay` and `jitter` in seconds, `loss` as a probability, `is_down`."""
        self.switch.stdin.write(json.dumps({"links": links} | condition) + "\n")
        self.switch.stdin.flush()
        self.switch.stdout.readline()

    def processes(self):
        return [pid for name in self.names for pid in call("ip", "netns", "pids", name).split()]

    def left_behind(self, patience=5):
        """The processes that have not ended within this time."""
        end = time.monotonic() + patience
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    def end(self):
        if self.switch:
            self.switch.stdin.close()
            self.switch.wait()
            self.switch.stdout.close()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
