/** A worker inside the test's own process, over the in-memory network: for scenarios that are about control messages only. */
import { MemoryNetwork } from "kvcr-core/testing";
import type { CommandName, Commands, WorkerOptions } from "./commands.js";
import { createInstance, type Handlers } from "./instance.js";
import type { TestWorker } from "./worker-handle.js";

/** Starts local workers that reach each other. */
export class LocalWorkers {
	readonly #network = new MemoryNetwork();

	async start(options: WorkerOptions): Promise<LocalWorker> {
		const channel = this.#network.channel(options.name);
		const { handlers } = await createInstance(options, { channel });
		return new LocalWorker(options, handlers);
	}
}

/** The same surface as a worker process, without the process. */
export class LocalWorker implements TestWorker {
	readonly options: WorkerOptions;
	readonly info: Commands["info"]["result"];
	readonly #handlers: Handlers;
	#closed = false;

	constructor(options: WorkerOptions, handlers: Handlers) {
		this.options = options;
		this.#handlers = handlers;
		this.info = handlers.info() as Commands["info"]["result"];
	}

	get endpoint(): string {
		return this.info.endpoint;
	}

	async call<N extends CommandName>(
		name: N,
		...args: Commands[N]["args"]
	): Promise<Commands[N]["result"]> {
		if (name === "close") this.#closed = true;
		const handler = this.#handlers[name] as (
			...values: Commands[N]["args"]
		) => Commands[N]["result"] | Promise<Commands[N]["result"]>;
		return handler(...args);
	}

	async close(): Promise<number> {
		await this.call("close");
		return 0;
	}

	async kill(): Promise<void> {
		if (!this.#closed) await this.call("close");
	}
}
