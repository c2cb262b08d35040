/** An engine's events on their way: from the simulator to its publisher process, and over ZeroMQ into a reverse map. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { silentLogger } from "kvcr-core";
import { ReverseHashMap } from "kvcr-vllm-adapter";
import {
	KvEventSubscriber,
	type PublisherStats,
} from "kvcr-vllm-adapter/events";
import { BLOCK_TOKENS, type PublishedEvent } from "./engine/engine.js";
import type { EventEncoding } from "./engine/event-encoding.js";
import type {
	Batch,
	BatchFate,
	PublisherReport,
} from "./engine/event-publisher.js";
import { nodeArguments } from "./manager-process.js";

/** A map that hears nothing of inventory, which comes in lists of keys: what it knows, events have told it. */
export class EventFedMap extends ReverseHashMap {
	override addMany(): number {
		return 0;
	}

	override removeMany(): number {
		return 0;
	}
}

export class EventStream {
	/** What becomes of the next batches. */
	fate: BatchFate = "sent";
	readonly #publisher: ChildProcess;
	readonly #subscriber: KvEventSubscriber;

	private constructor(publisher: ChildProcess, subscriber: KvEventSubscriber) {
		this.#publisher = publisher;
		this.#subscriber = subscriber;
	}

	/** Starts a publisher and the production intake; resolves once the two are connected. */
	static async start(
		map: ReverseHashMap,
		encoding: EventEncoding,
	): Promise<EventStream> {
		const publisher = fork(
			fileURLToPath(new URL("./engine/event-publisher.ts", import.meta.url)),
			[JSON.stringify([encoding, BLOCK_TOKENS])],
			{ serialization: "advanced", execArgv: nodeArguments() },
		);
		const bound = await reported(publisher);
		if (bound.kind !== "bound") throw new Error("the publisher is not bound");
		const { endpoint, replayEndpoint } = bound;
		const subscriber = new KvEventSubscriber({
			map,
			publishers: [{ endpoint, replayEndpoint }],
			logger: silentLogger,
		});
		const subscribed = reported(publisher);
		await subscriber.start();
		await subscribed;
		return new EventStream(publisher, subscriber);
	}

	/** Publishes a batch. */
	publish(events: readonly PublishedEvent[]): void {
		const batch: Batch = { events, fate: this.fate };
		this.#publisher.send(batch);
	}

	/** Counters of the intake. */
	stats(): PublisherStats {
		const [stats] = this.#subscriber.stats().values();
		if (stats === undefined) throw new Error("the intake has not started");
		return stats;
	}

	async close(): Promise<void> {
		await this.#subscriber.close();
		const ended = once(this.#publisher, "exit");
		this.#publisher.disconnect();
		await ended;
	}
}

async function reported(publisher: ChildProcess): Promise<PublisherReport> {
	const gone = new AbortController();
	const exit = () => gone.abort(new Error("the event publisher ended"));
	publisher.once("exit", exit);
	try {
		const [report] = await once(publisher, "message", { signal: gone.signal });
		return report as PublisherReport;
	} finally {
		publisher.off("exit", exit);
	}
}
