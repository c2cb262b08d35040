"""Mooncake's transfer engine over TCP as a process of the bench: `mooncake_peer.py source|target`. JSON lines in and out.

The source starts its writes itself, there is no request: what is timed is the write alone.
"""

import ctypes
import json
import mmap
import os
import sys
import time

OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

from mooncake.engine import TransferEngine  # noqa: E402 - it prints while it is loaded

BYTES = 64 << 20


def reply(value):
    OUT.write(json.dumps(value) + "\n")


engine = TransferEngine()
assert engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "") == 0
memory = mmap.mmap(-1, BYTES)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
memory[:] = (b"\1" if sys.argv[1] == "source" else b"\0") * BYTES
assert engine.register_memory(address, BYTES) == 0
reply({"port": engine.get_rpc_port(), "address": str(address)})


def writes(target, shape, rounds):
    peer, remote = f"127.0.0.1:{target['port']}", int(target["address"])
    size, blocks = shape["blockBytes"], shape["blocks"]
    source = [address + i * size for i in range(blocks)]
    destination = [remote + i * size for i in range(blocks)]
    sizes = [size] * blocks
    samples = []
    for _ in range(rounds):
        begun = time.perf_counter()
        if blocks == 1:
            result = engine.transfer_sync_write(peer, source[0], destination[0], size)
        else:
            result = engine.batch_transfer_sync_write(peer, source, destination, sizes)
        samples.append((time.perf_counter() - begun) * 1000)
        assert result == 0, "a write failed"
    return samples


for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "fetch":
        reply(writes(command["target"], command["shape"], command["rounds"]))
    elif command["cmd"] == "check":
        reply(memory[0] == 1 and memory[BYTES - 1] == 1)
    else:
        break
OUT.flush()
os._exit(0)
