"""One Python KVCR, driven by commands: a JSON line in, a JSON line out.

Bytes travel as "hex:...", integers that may exceed 53 bits as "int:...". Every reply carries the number of its command.
The first line out says where the peer is reached. The process ends when its input does, or after `close`.
"""

import collections
import contextlib
import json
import os
import select
import sys
import time
import traceback

import numpy as np
from kvcr import KVCR, KVCRBindings
from kvcr.config import (
    KVCRBackendConfigs,
    KVCRConfig,
    LocalDramOptions,
    RemoteFWDramOptions,
)
from kvcr.control_channels import ZmqPeerControlChannel
from kvcr.types import MemoryRef, RegionDescriptor

# The protocol's own: whatever a library prints must not end up between the replies.
OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def decode(value):
    if isinstance(value, str):
        if value.startswith("hex:"):
            return bytes.fromhex(value[4:])
        if value.startswith("int:"):
            return int(value[4:])
        return value
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    if isinstance(value, dict):
        return {name: decode(entry) for name, entry in value.items()}
    return value


def encode(value):
    if isinstance(value, (bytes, bytearray)):
        return "hex:" + value.hex()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**31:
        return f"int:{value}"
    if isinstance(value, (list, tuple)):
        return [encode(entry) for entry in value]
    if isinstance(value, dict):
        return {name: encode(entry) for name, entry in value.items()}
    return value


class Bytes:
    """The same bytes per key and piece as the other processes of a test compute (harness/blocks.ts)."""

    def __init__(self):
        self._steps = {}

    def of(self, key, piece, length):
        state = (2166136261 ^ (piece + 1)) & 0xFFFFFFFF
        for byte in key:
            state = ((state ^ byte) * 16777619) & 0xFFFFFFFF
        factors, terms = self._generator(-(-length // 4))
        words = factors * np.uint32(state) + terms
        return words.astype("<u4").view(np.uint8)[:length]

    def _generator(self, count):
        """Factor and term that lead from the first state to each later one."""
        known = self._steps.get(count)
        if known is None:
            factors = np.empty(count, np.uint32)
            terms = np.empty(count, np.uint32)
            factor, term = 1, 0
            for i in range(count):
                factor = factor * 1664525 & 0xFFFFFFFF
                term = (term * 1664525 + 1013904223) & 0xFFFFFFFF
                factors[i] = factor
                terms[i] = term
            known = self._steps[count] = (factors, terms)
        return known


class Adapter:
    """A key's hash is its last eight bytes."""

    def encode(self, framework_key):
        return framework_key

    def decode(self, key):
        return int.from_bytes(key[-8:], "big")


class Stats:
    """Keeps the last value of every gauge, over all snapshots."""

    gauges = {}

    def increase_counter(self, name, value, labelvalues=()):
        pass

    def observe_histogram(self, name, value, labelvalues=()):
        pass

    def set_gauge(self, name, value, labelvalues=()):
        Stats.gauges[labelvalues[0] if labelvalues else name] = value

    def reduce(self):
        return {}

    def is_empty(self):
        return True


class Peer:
    def __init__(self, options):
        self.pools = {
            pool["name"]: pool
            for pool in options.get("pools")
            or [{"name": "kv", "slotBytes": 65536, "slotCount": 64}]
        }
        self.name = options["name"]
        self.elements = options.get("frameworkElements", 16)
        self.bytes = Bytes()
        self.inventory = []
        self.reports = []
        self.polling = True
        self.done = {}
        self.pins = set()
        self.pin_answers = collections.deque()
        self.next_pin = 0
        self.next_element = collections.Counter()
        self.first_element = collections.Counter()
        self.framework = {
            name: np.zeros((self.elements, pool["slotBytes"]), np.uint8)
            for name, pool in self.pools.items()
        }
        self.managed = {
            name: np.zeros((pool["slotCount"], pool["slotBytes"]), np.uint8)
            for name, pool in self.pools.items()
        }
        self.blocks = {}
        for block in options.get("frameworkBlocks", []):
            key = block["key"]
            self.blocks[key] = self.fill(key, block.get("layout") or ["kv"])
        # Those stay; the elements after them are used in turn.
        self.first_element.update(self.next_element)
        port = options["port"]
        self.kvcr = KVCR(
            KVCRConfig(
                nixl_agent_name=self.name,
                pool_layouts=[(n, p["slotBytes"]) for n, p in self.pools.items()],
                enable_telemetry=True,
                operation_timeout_ms=options.get("operationTimeoutMs", 1000),
                abandon_timeout_ms=options.get("abandonTimeoutMs", 5000),
                nixl_listen_port=0,
            ),
            KVCRBindings(
                request_pin=self.request_pin,
                poll_pin_results=self.poll_pin_results,
                release_pin=self.release_pin,
                framework_control=ZmqPeerControlChannel("127.0.0.1", port, "127.0.0.1"),
                key_adapter=Adapter(),
                inventory_sink=self.inventory.append,
                stats_factory=Stats,
                on_resilience_event=lambda error: self.reports.append(str(error)),
            ),
            KVCRBackendConfigs(
                framework_regions=[
                    RegionDescriptor(
                        addr=memory.ctypes.data,
                        count=self.elements,
                        size=memory.shape[1],
                        label=name,
                    )
                    for name, memory in self.framework.items()
                ],
                local_dram=LocalDramOptions(
                    pools=[
                        (name, memory.ctypes.data, memory.nbytes)
                        for name, memory in self.managed.items()
                    ]
                ),
                remote_fw_dram=RemoteFWDramOptions(
                    eager_ctrl_connect=options.get("eagerConnect", True)
                ),
            ),
        )
        self.endpoint = f"tcp://127.0.0.1:{port}"

    # The framework's side.

    def take(self, layout):
        refs = []
        for label in layout:
            element = self.next_element[label]
            following = element + 1
            self.next_element[label] = (
                following if following < self.elements else self.first_element[label]
            )
            refs.append(
                MemoryRef(
                    end_point_name=self.name, label=label, element_index=element
                )
            )
        return refs

    def fill(self, key, layout):
        refs = self.take(layout)
        for piece, ref in enumerate(refs):
            memory = self.framework[ref.label]
            memory[ref.element_index] = self.bytes.of(key, piece, memory.shape[1])
        return refs

    def request_pin(self, keys):
        self.next_pin += 1
        blocks = {key: self.blocks.get(key) for key in keys}
        if any(refs is not None for refs in blocks.values()):
            handle = f"pin-{self.next_pin}"
            self.pins.add(handle)
            self.pin_answers.append((self.next_pin, (handle, blocks)))
        else:
            self.pin_answers.append((self.next_pin, None))
        return self.next_pin

    def poll_pin_results(self):
        answers = list(self.pin_answers)
        self.pin_answers.clear()
        return answers

    def release_pin(self, handle):
        if handle not in self.pins:
            return False
        self.pins.remove(handle)
        return True

    # Operations.

    def poll(self):
        if self.polling:
            for handle, entries in self.kvcr.poll_completed():
                self.done[handle] = entries

    def wait(self, handle):
        while handle not in self.done:
            self.poll()
            time.sleep(0.0002)
        return self.done.pop(handle)

    def report(self, keys, entries, bytes_ok):
        return [
            {
                "key": key,
                "status": entries[key].status.value,
                "bytesOk": bytes_ok(i, key, entries[key])
                if entries[key].success
                else None,
                "releaseHandle": None
                if entries[key].release_handle is None
                else f"int:{entries[key].release_handle}",
            }
            for i, key in enumerate(keys)
        ]

    def deposit(self, blocks, more=None):
        refs = {b["key"]: self.fill(b["key"], b.get("layout") or ["kv"]) for b in blocks}
        if sum(map(len, refs.values())) > self.elements:
            raise ValueError("more pieces than framework memory has elements")
        handle = self.kvcr.deposit(refs, no_evict=(more or {}).get("noEvict", False))
        return self.report(list(refs), self.wait(handle), lambda *_: None)

    def fetch(self, keys, more=None):
        more = more or {}
        handle = self.kvcr.fetch(
            keys, more.get("requestId"), more.get("expectedLayout") or ["kv"]
        )

        def bytes_ok(_, key, entry):
            return all(
                np.array_equal(
                    self.managed[ref.label.partition(":")[0]][ref.element_index],
                    self.bytes.of(key, piece, self.managed[ref.label].shape[1]),
                )
                for piece, ref in enumerate(entry.descriptors)
            )

        return self.report(keys, self.wait(handle), bytes_ok)

    def deliver(self, blocks, request_id=None):
        refs = {}
        for block in blocks:
            refs[block["key"]] = self.take(block.get("layout") or ["kv"])
            for ref in refs[block["key"]]:
                self.framework[ref.label][ref.element_index] = 0

        # Which pieces of a block those are that a part of its layout asks for.
        pieces = {
            b["key"]: b.get("pieces") or range(len(refs[b["key"]])) for b in blocks
        }

        def bytes_ok(_, key, __):
            return all(
                np.array_equal(
                    self.framework[ref.label][ref.element_index],
                    self.bytes.of(key, piece, self.framework[ref.label].shape[1]),
                )
                for piece, ref in zip(pieces[key], refs[key])
            )

        handle = self.kvcr.deliver(refs, request_id)
        return self.report(list(refs), self.wait(handle), bytes_ok)

    def commands(self):
        return {
            "deposit": self.deposit,
            "fetch": self.fetch,
            "deliver": self.deliver,
            "submitHint": self.submit_hint,
            "discardHint": lambda request: self.kvcr.discard_hint(request),
            "query": self.query,
            "release": lambda handles: [ok for _, ok in self.kvcr.release(handles)],
            "poll": self.set_polling,
            "envelope": self.envelope,
            "state": self.state,
            "close": self.close,
        }

    def submit_hint(self, text, request_id=None):
        self.kvcr.submit_hint(json.loads(text), request_id)

    def envelope(self, source, hashes):
        payload = {"source_control_endpoint": source, "block_hashes": hashes}
        action = {
            "action_id": "a-1",
            "action_type": "kv.fetch",
            "action_version": "1.0",
            "payload": payload,
        }
        return json.dumps(
            {"protocol_version": "0.1", "message_id": "m-1", "actions": [action]}
        )

    def query(self, keys, request_id=None):
        return [
            {"status": status.value, "tier": tier and tier.value}
            for status, tier in self.kvcr.query(keys, request_id)
        ]

    def set_polling(self, on):
        self.polling = on

    def state(self):
        self.kvcr.get_stats()
        return {
            "gauges": dict(Stats.gauges),
            "pins": len(self.pins),
            "reports": self.reports,
        }

    def close(self):
        self.kvcr.close()


def main():
    peer = Peer(decode(json.loads(sys.argv[1])))
    commands = peer.commands()

    def say(**reply):
        OUT.write(json.dumps(encode(reply)) + "\n")

    say(id=0, ok=True, value={"endpoint": peer.endpoint, "name": peer.name})
    pending = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.0005)
        peer.poll()
        if not ready:
            continue
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            request = decode(json.loads(line))
            try:
                value = commands[request["name"]](*request["args"])
                say(id=request["id"], ok=True, value=value)
            except Exception as error:
                traceback.print_exc()
                say(
                    id=request["id"],
                    ok=False,
                    error={"name": type(error).__name__, "message": str(error)},
                )
            if request["name"] == "close":
                # Past the destructors of NIXL's bundled libraries, which crash where the machine has RDMA packages.
                sys.stderr.flush()
                os._exit(0)
    with contextlib.suppress(Exception):
        peer.kvcr.close()
    os._exit(0)


main()
