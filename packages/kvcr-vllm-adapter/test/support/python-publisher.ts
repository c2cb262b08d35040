/** A real publisher in a Python process: msgspec and pyzmq, with the structs and the replay behavior of vLLM. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(
	new URL("../python/publisher.py", import.meta.url),
);
const FETCHED = fileURLToPath(
	new URL("../../../../.cache/python-events/bin/python", import.meta.url),
);

/** The Python that has msgspec and pyzmq, `undefined` where the bootstrap did not make one. */
export const python: string | undefined =
	process.env.KVCR_EVENTS_PYTHON ?? (existsSync(FETCHED) ? FETCHED : undefined);

/** Whether a missing Python is a failure rather than a skip. */
export const pythonRequired = process.env.CI === "true";

export interface PublisherOptions {
	readonly encoding: "map" | "array";
	readonly rank?: number;
	readonly topic?: string;
	/** Batches kept for replays. */
	readonly buffer?: number;
	/** Whether replay answers have the topic frame. */
	readonly replay_topic?: boolean;
	/** Endpoints to take over from a publisher that ended. */
	readonly bind?: string;
	readonly bind_replay?: string;
	/** Seconds by which the clock is ahead. */
	readonly clock?: number;
}

/** Fields of an event; hashes are hexadecimal, or integers. */
export type EventFields = {
	readonly type:
		| "BlockStored"
		| "BlockRemoved"
		| "AllBlocksCleared"
		| "SomethingNew";
	readonly block_hashes?: readonly (string | number)[];
	readonly [field: string]: unknown;
};

/** A store with the fields that are never omitted. */
export function stored(
	hashes: readonly (string | number)[],
	fields: Record<string, unknown> = {},
): EventFields {
	return {
		type: "BlockStored",
		block_hashes: hashes,
		parent_block_hash: null,
		token_ids: [1, 2, 3, 70_000],
		block_size: 4,
		medium: "GPU",
		...fields,
	};
}

export function removed(
	hashes: readonly (string | number)[],
	fields: Record<string, unknown> = {},
): EventFields {
	return {
		type: "BlockRemoved",
		block_hashes: hashes,
		medium: "GPU",
		...fields,
	};
}

export class PythonPublisher {
	readonly #child: ChildProcessWithoutNullStreams;
	readonly #lines: AsyncIterator<string>;
	#errors = "";
	endpoint = "";
	replay = "";

	private constructor(child: ChildProcessWithoutNullStreams) {
		this.#child = child;
		this.#lines = createInterface({ input: child.stdout })[
			Symbol.asyncIterator
		]();
		child.stderr.on("data", (chunk) => {
			this.#errors = (this.#errors + String(chunk)).slice(-4000);
		});
	}

	static async start(options: PublisherOptions): Promise<PythonPublisher> {
		if (python === undefined)
			throw new Error("no Python with msgspec and pyzmq");
		const child = spawn(python, [SCRIPT, JSON.stringify(options)]);
		const publisher = new PythonPublisher(child);
		const first = await publisher.#line();
		publisher.endpoint = first.endpoint as string;
		publisher.replay = first.replay as string;
		return publisher;
	}

	async command(
		cmd: string,
		fields: Record<string, unknown> = {},
	): Promise<Record<string, unknown>> {
		this.#child.stdin.write(`${JSON.stringify({ cmd, ...fields })}\n`);
		return this.#line();
	}

	/** Publishes a batch. `lose`: not on the live stream; `forget`: not kept for replays. */
	async publish(
		events: readonly EventFields[],
		options: { lose?: boolean; forget?: boolean; rank?: number } = {},
	): Promise<void> {
		await this.command("publish", { events, ...options });
	}

	async stop(): Promise<void> {
		if (this.#child.exitCode !== null || this.#child.signalCode !== null)
			return;
		const ended = new Promise((resolve) => this.#child.once("exit", resolve));
		this.#child.kill("SIGKILL");
		await ended;
	}

	async #line(): Promise<Record<string, unknown>> {
		const { value, done } = await this.#lines.next();
		if (done === true) throw new Error(`the publisher ended: ${this.#errors}`);
		return JSON.parse(value) as Record<string, unknown>;
	}
}
