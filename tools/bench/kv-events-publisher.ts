/** The publisher process of the KV event bench: makes all payloads first, waits for a subscriber, then sends. */
import { randomFillSync } from "node:crypto";
import { XPublisher } from "zeromq";
import { eventPayload } from "./kv-events-payload.js";

const [batches = 0, events = 1, hashes = 1] = process.argv.slice(2).map(Number);
const { payload, hashesAt } = eventPayload(events, hashes);
const made: Buffer[] = [];
for (let i = 0; i < batches; i++) {
	for (const at of hashesAt) randomFillSync(payload, at, 32);
	made.push(Buffer.from(payload));
}
const socket = new XPublisher({ sendHighWaterMark: 1_000_000 });
await socket.bind("tcp://127.0.0.1:*");
process.send?.(socket.lastEndpoint);
await socket.receive();
for (let i = 0; i < batches; i++) {
	const sequence = Buffer.alloc(8);
	sequence.writeBigUInt64BE(BigInt(i));
	await socket.send(["", sequence, made[i] as Buffer]);
}
// What is queued goes out while the process lives; whoever started it ends it.
setInterval(() => {}, 60_000);
