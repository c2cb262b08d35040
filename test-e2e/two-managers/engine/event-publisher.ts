/**
 * The event publisher of an engine, a process of its own: batches on a PUB socket with increasing numbers, and the last of
 * them again on request. It can lose batches on the way, as a full queue would, or for good.
 */
import { Router, XPublisher } from "zeromq";
import type { PublishedEvent } from "./engine.js";
import {
	type EventEncoding,
	encodeBatch,
	structsOf,
} from "./event-encoding.js";

/** What becomes of a batch: it is sent, it comes only when asked for, or never. */
export type BatchFate = "sent" | "kept" | "lost";

/** Manager → publisher. */
export interface Batch {
	readonly events: readonly PublishedEvent[];
	readonly fate: BatchFate;
}

/** Publisher → manager: where it is, then that somebody has subscribed. */
export type PublisherReport =
	| {
			readonly kind: "bound";
			readonly endpoint: string;
			readonly replayEndpoint: string;
	  }
	| { readonly kind: "subscribed" };

const TOPIC = "kv-events";
/** Batches that can be asked for. */
const KEPT = 1_000;
const START_SECONDS = 1_700_000_000.25;

const [encoding, blockTokens] = JSON.parse(process.argv[2] ?? "[]") as [
	EventEncoding,
	number,
];
const live = new XPublisher({ linger: 0 });
const replays = new Router({ linger: 0 });
const kept: { readonly seq: number; readonly payload: Uint8Array }[] = [];
let next = 0;
/** Batches and replays take turns, as in vLLM, where one thread does both. */
let turn: Promise<void> = Promise.resolve();

await live.bind("tcp://127.0.0.1:*");
await replays.bind("tcp://127.0.0.1:*");
process.on("message", (batch: Batch) => {
	turn = turn.then(() => publish(batch));
});
process.on("disconnect", () => {
	live.close();
	replays.close();
});
void subscriptions();
void requests();
report({
	kind: "bound",
	endpoint: live.lastEndpoint ?? "",
	replayEndpoint: replays.lastEndpoint ?? "",
});

async function publish({ events, fate }: Batch): Promise<void> {
	const seq = next++;
	const structs = events.flatMap((event) => structsOf(event, blockTokens));
	const payload = encodeBatch(START_SECONDS + seq, structs, encoding);
	if (fate !== "lost") kept.push({ seq, payload });
	if (kept.length > KEPT) kept.shift();
	if (fate === "sent" && !live.closed)
		await live.send([TOPIC, numberOf(seq), payload]);
}

async function subscriptions(): Promise<void> {
	for await (const _ of live) report({ kind: "subscribed" });
}

async function requests(): Promise<void> {
	for await (const [client, , start] of replays) {
		const first = (start as Buffer).readBigUInt64BE();
		turn = turn.then(() => replay(client as Buffer, first));
	}
}

async function replay(client: Buffer, first: bigint): Promise<void> {
	for (const { seq, payload } of kept)
		if (BigInt(seq) >= first)
			await replays.send([client, "", TOPIC, numberOf(seq), payload]);
	await replays.send([client, "", TOPIC, numberOf(-1), ""]);
}

function numberOf(seq: number): Buffer {
	const bytes = Buffer.alloc(8);
	bytes.writeBigInt64BE(BigInt(seq));
	return bytes;
}

function report(message: PublisherReport): void {
	process.send?.(message);
}
