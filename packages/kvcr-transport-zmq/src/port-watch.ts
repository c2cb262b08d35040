/** Sees when a thread of libzmq has given back the port of a socket. */
import { setTimeout } from "node:timers/promises";
import type { Observer, Pull } from "zeromq";

/** Patience with libzmq when it frees a port, in milliseconds. It takes less than one. */
const FREE_PORT_MS = 1_000;

/** Made before its socket is closed: closing and unbinding only ask for the port to be freed, and the socket's monitor ends after it was. */
export class PortWatch {
	/** Missing when no socket was left for it: then the port is free a little after this. */
	readonly #monitor: Observer | undefined;
	readonly #patience = new AbortController();

	constructor(pull: Pull) {
		try {
			this.#monitor = pull.events;
		} catch {
			// A monitor is a socket, and there is none left.
		}
	}

	/** Resolves once the port is free, patience is over, or the watch was closed. */
	async freed(): Promise<void> {
		try {
			await Promise.race([
				this.#ended(),
				setTimeout(FREE_PORT_MS, undefined, { signal: this.#patience.signal }),
			]);
		} catch {
			// Closed.
		} finally {
			this.close();
		}
	}

	/** Ends the watch. One that is left open when its worker thread exits aborts the process; see exit.ts. */
	close(): void {
		this.#patience.abort();
		this.#monitor?.close();
	}

	async #ended(): Promise<void> {
		try {
			while (
				this.#monitor !== undefined &&
				(await this.#monitor.receive()).type !== "end"
			);
		} catch {
			// Closed: nothing more will be told.
		}
	}
}
