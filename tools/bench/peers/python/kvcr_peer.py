"""One Python KVCR as a process of the bench: `kvcr_peer.py source|target|metadata SETTINGS`. JSON lines in and out."""

import json
import os
import sys
import time

import numpy as np
from kvcr import KVCR, KVCRBindings
from kvcr.config import KVCRBackendConfigs, KVCRConfig, LocalDramOptions
from kvcr.control_channels import ZmqPeerControlChannel
from kvcr.types import MemoryRef, RegionDescriptor

OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

ROLE = sys.argv[1]
SETTINGS = json.loads(sys.argv[2])
NAME = f"python-{ROLE}-{os.getpid()}"
STAGED = 64


def key_of(value):
    return b"\x5a" * 28 + value.to_bytes(8, "big")


def hash_of(pool, index):
    return (0xA0 if pool == "small" else 0xB0) << 56 | index


def reply(value):
    OUT.write(json.dumps(value) + "\n")


class Adapter:
    def encode(self, key):
        return key

    def decode(self, key):
        return int.from_bytes(key[28:36], "big")


class Peer:
    def __init__(self, pools, staged=STAGED):
        self.managed = {
            name: np.zeros((slots, size), np.uint8) for name, size, slots in pools
        }
        self.staging = {
            name: np.zeros((staged, size), np.uint8) for name, size, _ in pools
        }
        self.next = dict.fromkeys(self.managed, 0)
        self.done = {}
        self.kvcr = KVCR(
            KVCRConfig(
                nixl_agent_name=NAME,
                pool_layouts=[(name, size) for name, size, _ in pools],
                operation_timeout_ms=20_000,
                abandon_timeout_ms=60_000,
                nixl_listen_port=0,
            ),
            KVCRBindings(
                request_pin=lambda keys: 0,
                poll_pin_results=lambda: [(0, None)],
                release_pin=lambda handle: True,
                framework_control=ZmqPeerControlChannel(
                    "127.0.0.1", SETTINGS["port"], "127.0.0.1"
                ),
                key_adapter=Adapter(),
            ),
            KVCRBackendConfigs(
                framework_regions=[
                    RegionDescriptor(
                        addr=memory.ctypes.data,
                        count=len(memory),
                        size=memory.shape[1],
                        label=name,
                    )
                    for name, memory in self.staging.items()
                ],
                local_dram=LocalDramOptions(
                    pools=[
                        (name, memory.ctypes.data, memory.nbytes)
                        for name, memory in self.managed.items()
                    ]
                ),
            ),
        )

    def poll(self):
        for handle, entries in self.kvcr.poll_completed():
            self.done[handle] = entries

    def wait(self, handle):
        while True:
            self.poll()
            entries = self.done.pop(handle, None)
            if entries is not None:
                return entries
            time.sleep(SETTINGS["pollSeconds"])

    def ref(self, pool, element):
        return MemoryRef(end_point_name=NAME, label=pool, element_index=element)

    def fill(self):
        for pool, memory in self.staging.items():
            count = SETTINGS["pools"][pool]["sourceBlocks"]
            for at in range(0, count, STAGED):
                blocks = {}
                for element, index in enumerate(range(at, min(at + STAGED, count))):
                    memory[element] = index & 0xFF
                    name = hash_of(pool, index).to_bytes(8, "big")
                    memory[element, :8] = np.frombuffer(name, np.uint8)
                    key = key_of(hash_of(pool, index))
                    blocks[key] = [self.ref(pool, element)]
                entries = self.wait(self.kvcr.deposit(blocks))
                assert all(entry.success for entry in entries.values())

    def following(self, pool, count):
        total = SETTINGS["pools"][pool]["sourceBlocks"]
        start = self.next[pool]
        self.next[pool] = (start + count) % total
        return [key_of(hash_of(pool, (start + i) % total)) for i in range(count)]

    def advise(self, source, pool):
        payload = {
            "source_control_endpoint": source,
            "block_hashes": [
                hash_of(pool, i) for i in range(SETTINGS["pools"][pool]["sourceBlocks"])
            ],
        }
        action = {
            "action_id": "a",
            "action_type": "kv.fetch",
            "action_version": "1.0",
            "payload": payload,
        }
        self.kvcr.submit_hint(
            {"protocol_version": "0.1", "message_id": "m", "actions": [action]}, "bench"
        )

    def take(self, pool, entries):
        memory = self.managed[pool]
        for key, entry in entries.items():
            assert entry.success, "a fetch failed"
            row = memory[entry.descriptors[0].element_index]
            assert row[:8].tobytes() == key[28:] and row[-1] == key[35], "wrong bytes"
        self.kvcr.release([entry.release_handle for entry in entries.values()])

    def fetches(self, source, shape, rounds):
        pool = "large" if shape["blockBytes"] > 65536 else "small"
        self.advise(source, pool)
        samples = []
        for _ in range(rounds):
            keys = self.following(pool, shape["blocks"])
            begun = time.perf_counter()
            entries = self.wait(self.kvcr.fetch(keys, "bench", [pool]))
            samples.append((time.perf_counter() - begun) * 1000)
            self.take(pool, entries)
        self.kvcr.discard_hint("bench")
        return samples

    def load(self, source):
        """Fetches, several in flight, while the main thread is busy most of the time."""
        settings = SETTINGS["load"]
        self.advise(source, "small")
        samples, started, submitted = [], {}, 0
        while len(samples) < settings["rounds"]:
            while len(started) < settings["inFlight"] and submitted < settings["rounds"]:
                submitted += 1
                keys = self.following("small", settings["blocks"])
                begun = time.perf_counter()
                started[self.kvcr.fetch(keys, "bench", ["small"])] = begun
            until = time.perf_counter() + settings["busyMs"] / 1000
            while time.perf_counter() < until:
                pass
            self.poll()
            for handle in [handle for handle in started if handle in self.done]:
                samples.append((time.perf_counter() - started.pop(handle)) * 1000)
                self.take("small", self.done.pop(handle))
        self.kvcr.discard_hint("bench")
        return samples


def metadata():
    settings = SETTINGS["metadata"]
    size, slots, batch = settings["slotBytes"], settings["slots"], settings["batch"]
    peer = Peer([("kv", size, slots)], staged=batch)
    keys = [key_of(i) for i in range(settings["deposits"])]
    begun = time.perf_counter()
    for at in range(0, len(keys), batch):
        blocks = {
            key: [peer.ref("kv", element)]
            for element, key in enumerate(keys[at : at + batch])
        }
        entries = peer.wait(peer.kvcr.deposit(blocks))
        assert all(entry.success for entry in entries.values())
    deposit_ms = (time.perf_counter() - begun) * 1000
    present = keys[-slots:]
    query_ms = []
    for _ in range(settings["queries"]):
        begun = time.perf_counter()
        statuses = peer.kvcr.query(present)
        query_ms.append((time.perf_counter() - begun) * 1000)
        assert all(status.value == "HIT" for status, _ in statuses)
    reply({"queryMs": query_ms, "depositMs": deposit_ms})
    peer.kvcr.close()


def main():
    pools = SETTINGS["pools"]
    slots = "sourceBlocks" if ROLE == "source" else "targetSlots"
    peer = Peer([(n, p["slotBytes"], p[slots]) for n, p in pools.items()])
    if ROLE == "source":
        peer.fill()
    reply({"endpoint": f"tcp://127.0.0.1:{SETTINGS['port']}"})
    # A source has to be polled by its framework, too.
    os.set_blocking(0, False)
    pending = b""
    while True:
        peer.poll()
        try:
            chunk = os.read(0, 65536)
        except BlockingIOError:
            time.sleep(max(SETTINGS["pollSeconds"], 0.0005))
            continue
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if command["cmd"] == "fetch":
                reply(
                    peer.fetches(
                        command["source"], command["shape"], command["rounds"]
                    )
                )
            elif command["cmd"] == "load":
                reply(peer.load(command["source"]))
            elif command["cmd"] == "close":
                peer.kvcr.close()
                return


if ROLE == "metadata":
    metadata()
else:
    main()
# Past destructors of bundled libraries, which crash where the machine has RDMA packages.
OUT.flush()
os._exit(0)
