/** The hostile peer of the flood bench: told a target and a kind, it sends as fast as it can until told to stop. */
import { connect } from "@nats-io/transport-node";
import { Push } from "zeromq";
import { Destination } from "./destination.js";
import { type FloodKind, floodMessages, type Identity } from "./messages.js";
import type { Place } from "./shared.js";

/** What the bench tells it. */
export type Order =
	| { readonly flood: string; readonly kind: FloodKind }
	/** Become a peer of this source, and flood as such from now on. */
	| { readonly join: string }
	| "pause"
	| "stop";

type FloodOrder = Extract<Order, { readonly flood: string }>;

/** Its name among the peers. */
const NAME = "mallory";

const place = JSON.parse(process.argv[2] ?? "{}") as Place;
const connection =
	place.channel === "nats" ? await connect({ servers: place.nats }) : undefined;
let flooding = false;
let sent = 0;
/** Ends the flood's socket, where there is one: a send that waits for its peer would wait for ever. */
let hangUp = () => {};
/** While it is a peer. */
let member: Destination | undefined;

process.on("message", async (order: Order) => {
	if (typeof order === "object" && "join" in order) {
		member = await Destination.start(place, order.join, NAME);
		const { failed } = await member.place(1);
		process.send?.({ joined: failed === 0 });
		return;
	}
	flooding = false;
	hangUp();
	if (order === "pause") process.send?.({ sent });
	if (order === "stop") {
		await member?.close();
		process.disconnect();
	}
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

function identity(elsewhere: string): Identity {
	return member === undefined
		? { replyTo: elsewhere }
		: { peer: member.identity, replyTo: member.endpoint };
}

async function overZmq({ flood, kind }: FloodOrder): Promise<void> {
	const messages = floodMessages(kind, flood, identity("tcp://127.0.0.1:1"));
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

async function overNats({ flood, kind }: FloodOrder): Promise<void> {
	const messages = floodMessages(kind, flood, identity("nats://kvcr.nobody"));
	const open = flood.replace("nats://", "");
	const subject = member === undefined ? open : `${open}._from.${NAME}`;
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
