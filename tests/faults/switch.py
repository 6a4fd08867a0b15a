#!/usr/bin/env python3
"""A switch between network namespaces, whose links delay packets, lose them or are down.

    switch.py SEED NAMESPACE ...

Each namespace is given a TUN device eth0, whose machine number i (from 0) has the address 10.77.0.(i + 1). It is also given
an eth1, which is not connected to anything. A line of JSON on stdin changes links, both ways: {"links": [[0, 1], ...],
"delay": seconds, "jitter": seconds, "loss": probability, "is_down": boolean}. Each packet is delayed by the delay and a
random part of the jitter, so that packets may overtake each other. The switch prints a line when it is ready, and one after
each change; it ends with its input.
"""
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN_WITHOUT_HEADER = 0x1001
CLONE_NEWNET = 0x40000000
MAX_PACKET = 65536
WHOLE = {"delay": 0.0, "jitter": 0.0, "loss": 0.0, "is_down": False}


def enter(namespace):
    """From now on this thread is in a network namespace, of which a file is open."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def tun_device(namespace, name):
    """A new device in the namespace of this name. Whoever reads the file gets the packets that are sent there."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    enter(there)
    try:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN_WITHOUT_HEADER))
    finally:
        enter(here)
        os.close(here)
        os.close(there)
    return device


class Switch:
    def __init__(self, devices, rng):
        self.devices = devices
        self.machines = {device: machine for machine, device in enumerate(devices)}
        self.links = {pair: WHOLE for pair in itertools.permutations(range(len(devices)), 2)}
        self.rng = rng
        self.under_way = []  # (due time, number, device, packet)
        self.numbers = itertools.count()

    def change(self, line):
        condition = json.loads(line)
        for one, other in condition.pop("links"):
            self.links[one, other] = self.links[one, other] | condition
            self.links[other, one] = self.links[other, one] | condition

    def take(self, device):
        """Reads the packets of a machine, and forgets those that are lost."""
        for _ in range(64):
            try:
                packet = os.read(device, MAX_PACKET)
            except OSError:  # there is none, or the device is not up yet
                return
            is_ipv4 = packet[0] >> 4 == 4
            link = self.links.get((self.machines[device], packet[19] - 1)) if is_ipv4 else None
            if not link or link["is_down"] or self.rng.random() < link["loss"]:
                continue
            due = time.monotonic() + link["delay"] + self.rng.random() * link["jitter"]
            heapq.heappush(self.under_way, (due, next(self.numbers), self.devices[packet[19] - 1], packet))

    def deliver(self):
        now = time.monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            _, _, device, packet = heapq.heappop(self.under_way)
            try:
                os.write(device, packet)
            except OSError:
                pass  # the machine's queue is full: lost

    def run(self, control):
        poller = select.poll()
        for device in [control, *self.devices]:
            poller.register(device, select.POLLIN)
        while True:
            wait = max(self.under_way[0][0] - time.monotonic(), 0) * 1000 if self.under_way else None
            for device, _ in poller.poll(wait):
                if device != control:
                    self.take(device)
                    continue
                line = os.read(control, MAX_PACKET)  # one line: the next one comes after the answer
                if not line:
                    return
                self.change(line)
                print("changed", flush=True)
            self.deliver()


def main():
    seed, *namespaces = sys.argv[1:]
    unconnected = [tun_device(namespace, "eth1") for namespace in namespaces]
    switch = Switch([tun_device(namespace, "eth0") for namespace in namespaces], random.Random(seed))
    print("ready", flush=True)
    switch.run(sys.stdin.fileno())
    for device in unconnected:
        os.close(device)


if __name__ == "__main__":
    main()
