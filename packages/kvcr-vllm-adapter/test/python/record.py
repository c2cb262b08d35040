"""Writes ../fixtures/event-frames.json: payloads of a publisher in both encodings. The expected values are filled in by
hand from what is sent, not from what is read."""

import json
import pathlib
import sys

sys.argv = [sys.argv[0], "{}"]
source = pathlib.Path(__file__).with_name("publisher.py").read_text()
module = {"__name__": "publisher"}
exec(source.replace("\nmain()\n", "\n"), module)

A, B = "11" * 24 + "ff000000000000aa", "22" * 16


def place(**fields):
    return {name: value for name, value in fields.items() if value is not None}


def block(kind, hashes, group, **where):
    return {"kind": kind, "hashes": hashes, "group": group, "place": place(**where)}


SENT = [
    (
        "a plain store",
        [{"type": "BlockStored", "block_hashes": [A, B], "parent_block_hash": None,
          "token_ids": [1, 2, 300, 70000], "block_size": 2, "medium": "GPU"}],
        None,
        [block("stored", [A, B], 0, medium="GPU")],
    ),
    (
        "a store with every field",
        [{"type": "BlockStored", "block_hashes": [A], "parent_block_hash": B, "token_ids": [1],
          "block_size": 1, "lora_id": 4, "medium": "CPU", "lora_name": "lora",
          "extra_keys": [["salt", 1]], "group_idx": 3, "kv_cache_spec_kind": "sliding_window",
          "kv_cache_spec_sliding_window": 128, "locality": "LOCAL", "ownership": "kvcr",
          "session_id": "s", "lookahead_token_ids": [5]}],
        2,
        [block("stored", [A], 3, medium="CPU", locality="LOCAL", ownership="kvcr")],
    ),
    (
        "removals and a clear in one batch",
        [{"type": "BlockRemoved", "block_hashes": [A]},
         {"type": "BlockRemoved", "block_hashes": [B], "medium": "STORAGE", "group_idx": 1,
          "locality": "LOCAL", "ownership": "kvcr"},
         {"type": "AllBlocksCleared"}],
        0,
        [block("removed", [A], 0),
         block("removed", [B], 1, medium="STORAGE", locality="LOCAL", ownership="kvcr"),
         {"kind": "cleared"}],
    ),
]

frames = []
for encoding in ("map", "array"):
    batch_class, classes = module["structs"](encoding == "map")
    for name, events, rank, expected in SENT:
        made = []
        for event in events:
            fields = dict(event)
            cls = classes[fields.pop("type")]
            for key in ("block_hashes",):
                if key in fields:
                    fields[key] = [bytes.fromhex(h) for h in fields[key]]
            if fields.get("parent_block_hash"):
                fields["parent_block_hash"] = bytes.fromhex(fields["parent_block_hash"])
            made.append(cls(**fields))
        payload = module["msgspec"].msgpack.encode(batch_class(1700000000.25, made, rank))
        read = {"ts": 1700000000.25, "events": expected, "unknownTags": 0,
                "invalidEvents": 0, "integerHashes": 0}
        if rank is not None:
            read["rank"] = rank
        frames.append({"name": f"{name} ({encoding}s)", "payload": payload.hex(), "expected": read})

target = pathlib.Path(__file__).parent.parent / "fixtures" / "event-frames.json"
target.write_text(json.dumps(frames, indent="\t") + "\n")
