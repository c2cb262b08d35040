/** The hostile peer of the flood bench: told a target and a kind, it sends as fast as it can until told to stop. */
import { connect } from "@nats-io/transport-node";
import { Push } from "zeromq";
import { type FloodKind, floodMessages } from "./messages.js";
import type { Place } from "./shared.js";

/** What the bench tells it. */
export type Order =
	| { readonly flood: string; readonly kind: FloodKind }
	| "pause"
	| "stop";

const place = JSON.parse(process.argv[2] ?? "{}") as Place;
const connection =
	place.channel === "nats" ? await connect({ servers: place.nats }) : undefined;
let flooding = false;
let sent = 0;
/** Ends the flood's socket, where there is one: a send that waits for its peer would wait for ever. */
let hangUp = () => {};

process.on("message", (order: Order) => {
	flooding = false;
	hangUp();
	if (order === "pause") process.send?.({ sent });
	if (order === "stop") process.disconnect();
	if (typeof order === "string") return;
	sent = 0;
	flooding = true;
	void (connection === undefined ? overZmq(order) : overNats(order));
});
// Told to stop, or the bench is gone without a word.
process.on("disconnect", () => {
	flooding = false;
	hangUp();
	void connection?.close();
});
process.send?.("ready");

async function overZmq({ flood, kind }: Exclude<Order, string>): Promise<void> {
	const messages = floodMessages(kind, flood, "tcp://127.0.0.1:1");
	const push = new Push({ linger: 0 });
	push.connect(flood);
	hangUp = () => push.close();
	try {
		while (!push.closed) {
			await push.send(messages[sent++ % messages.length] as Uint8Array);
			if (sent % 256 === 0) await turn();
		}
	} catch (error) {
		if (!push.closed) throw error;
	}
}

async function overNats({
	flood,
	kind,
}: Exclude<Order, string>): Promise<void> {
	const messages = floodMessages(kind, flood, "nats://kvcr.mallory");
	const subject = flood.replace("nats://", "");
	while (flooding) {
		for (let burst = 0; burst < 64; burst += 1)
			connection?.publish(
				subject,
				messages[sent++ % messages.length] as Uint8Array,
			);
		await connection?.flush();
		await turn();
	}
}

function turn(): Promise<void> {
	return new Promise((resolve) => setImmediate(resolve));
}
