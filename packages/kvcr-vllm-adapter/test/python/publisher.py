"""A publisher of KV cache events that encodes and answers as vLLM does. Driven by JSON lines on standard input; answers
each with a JSON line on standard output. See ../support/python-publisher.ts for the commands."""

import json
import os
import sys
import threading
from collections import deque

import msgspec
import zmq

HASH = bytes | int


def structs(map_encoding: bool):
    """Event classes of current releases (maps with a type tag) or older ones (arrays, the tag first)."""
    style = {"omit_defaults": True, "gc": False, "array_like": not map_encoding}

    class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
        ts: float
        events: list
        data_parallel_rank: int | None = None

    class BlockStored(msgspec.Struct, tag="BlockStored", **style):
        block_hashes: list[HASH]
        parent_block_hash: HASH | None
        token_ids: list[int]
        block_size: int
        lora_id: int | None = None
        medium: str | None = None
        lora_name: str | None = None
        extra_keys: list | None = None
        group_idx: int | None = None
        kv_cache_spec_kind: str | None = None
        kv_cache_spec_sliding_window: int | None = None
        locality: str | None = None
        ownership: str | None = None
        session_id: str | None = None
        lookahead_token_ids: list[int] | None = None

    class BlockRemoved(msgspec.Struct, tag="BlockRemoved", **style):
        block_hashes: list[HASH]
        medium: str | None = None
        group_idx: int | None = None
        locality: str | None = None
        ownership: str | None = None

    class AllBlocksCleared(msgspec.Struct, tag="AllBlocksCleared", **style):
        pass

    class SomethingNew(msgspec.Struct, tag="SomethingNew", **style):
        block_hashes: list[HASH] = []

    return EventBatch, {
        "BlockStored": BlockStored,
        "BlockRemoved": BlockRemoved,
        "AllBlocksCleared": AllBlocksCleared,
        "SomethingNew": SomethingNew,
    }


def hash_of(value):
    return value if isinstance(value, int) else bytes.fromhex(value)


class Publisher:
    def __init__(self, options):
        self.batch_class, self.classes = structs(options["encoding"] == "map")
        self.encoder = msgspec.msgpack.Encoder()
        self.replay_topic = options.get("replay_topic", True)
        self.topic = options.get("topic", "").encode()
        self.buffer = deque(maxlen=options.get("buffer", 10_000))
        self.rank = options.get("rank")
        self.seq = 0
        self.clock = 1_700_000_000.0 + options.get("clock", 0)
        self.answering = True
        self.replays = []
        self.lock = threading.Lock()
        context = zmq.Context.instance()
        self.pub = context.socket(zmq.XPUB)
        self.pub.setsockopt(zmq.SNDHWM, 100_000)
        self.pub.bind(options.get("bind", "tcp://127.0.0.1:*"))
        self.router = context.socket(zmq.ROUTER)
        self.router.bind(options.get("bind_replay", "tcp://127.0.0.1:*"))
        threading.Thread(target=self.serve, daemon=True).start()

    def endpoints(self):
        last = zmq.LAST_ENDPOINT
        return {
            "endpoint": self.pub.getsockopt(last).decode().rstrip("\0"),
            "replay": self.router.getsockopt(last).decode().rstrip("\0"),
        }

    def event(self, fields):
        fields = dict(fields)
        cls = self.classes[fields.pop("type")]
        for name in ("block_hashes",):
            if name in fields:
                fields[name] = [hash_of(value) for value in fields[name]]
        if fields.get("parent_block_hash") is not None:
            fields["parent_block_hash"] = hash_of(fields["parent_block_hash"])
        return cls(**fields)

    def encode(self, events, rank):
        self.clock += 0.001
        return self.encoder.encode(
            self.batch_class(self.clock, [self.event(e) for e in events], rank)
        )

    def send(self, payload, lose=False, forget=False):
        number = self.seq.to_bytes(8, "big")
        # vLLM publishes and answers in one thread, so no replay falls between the two.
        with self.lock:
            if not lose:
                self.pub.send_multipart((self.topic, number, payload))
            if not forget:
                self.buffer.append((self.seq, payload))
        self.seq += 1

    def serve(self):
        while True:
            client, _, start = self.router.recv_multipart()
            first = int.from_bytes(start, "big")
            self.replays.append(first)
            if not self.answering:
                continue
            middle = (b"", self.topic) if self.replay_topic else (b"",)
            with self.lock:
                kept = [item for item in self.buffer if item[0] >= first]
            for seq, payload in kept:
                self.router.send_multipart(
                    (client, *middle, seq.to_bytes(8, "big"), payload)
                )
            end = (-1).to_bytes(8, "big", signed=True)
            self.router.send_multipart((client, *middle, end, b""))

    def command(self, line):
        name = line["cmd"]
        if name == "wait_subscriber":
            self.pub.recv()
        elif name == "publish":
            payload = self.encode(line["events"], line.get("rank", self.rank))
            self.send(payload, line.get("lose", False), line.get("forget", False))
        elif name == "encode":
            payload = self.encode(line["events"], line.get("rank", self.rank))
            return {"payload": payload.hex()}
        elif name == "raw":
            self.pub.send_multipart([bytes.fromhex(f) for f in line["frames"]])
        elif name == "restart":
            with self.lock:
                self.buffer.clear()
            self.seq = 0
            self.clock += 10
        elif name == "answering":
            self.answering = line["value"]
        elif name == "replays":
            return {"replays": self.replays}
        elif name == "flood":
            cls = self.classes["BlockStored"]
            tokens = list(range(100_000, 100_000 + line["hashes"] * 16))
            batches = [
                self.encoder.encode(
                    self.batch_class(
                        self.clock + i,
                        [
                            cls(
                                block_hashes=[os.urandom(32) for _ in range(line["hashes"])],
                                parent_block_hash=os.urandom(32),
                                token_ids=tokens,
                                block_size=16,
                                medium="GPU",
                                group_idx=0,
                            )
                            for _ in range(line["events"])
                        ],
                        self.rank,
                    )
                )
                for i in range(line["batches"])
            ]
            for payload in batches:
                self.send(payload)
            return {"bytes": sum(map(len, batches))}
        return {}


def main():
    publisher = Publisher(json.loads(sys.argv[1]))
    print(json.dumps(publisher.endpoints()), flush=True)
    for line in sys.stdin:
        print(json.dumps(publisher.command(json.loads(line))), flush=True)


main()
