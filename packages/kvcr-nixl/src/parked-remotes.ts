/**
 * Peers that were removed a moment ago and are still loaded. NIXL gives the file descriptors of a connection back no
 * earlier than when it is closed itself, at both ends; a peer that is removed and added again and again would use up
 * all there are. So it is kept for a while, and taken up again if it comes back with the same metadata.
 */

/** What is known of a loaded peer, as far as it matters here. */
export interface Parkable {
	readonly name: string;
	readonly metadata: Uint8Array;
}

/** Most peers kept. */
const MAX_PARKED = 64;

/** How long, in milliseconds: a peer that is gone for good keeps its mappings no longer than this. */
const PARKED_MS = 60_000;

export class ParkedRemotes<T extends Parkable> {
	readonly #unload: (parked: T) => void;
	/** By name, the oldest first. */
	readonly #parked = new Map<string, { peer: T; until: number }>();
	#timer: NodeJS.Timeout | undefined;

	/** @param unload called for each peer that did not come back */
	constructor(unload: (parked: T) => void) {
		this.#unload = unload;
	}

	park(peer: T): void {
		this.#forget(peer.name);
		const oldest = this.#parked.keys().next();
		if (this.#parked.size >= MAX_PARKED && !oldest.done)
			this.#forget(oldest.value);
		this.#parked.set(peer.name, {
			peer,
			until: performance.now() + PARKED_MS,
		});
		this.#arm();
	}

	/** Takes a peer back, if its metadata are what they were; what is parked under its name otherwise is unloaded. */
	take(name: string, metadata: Uint8Array): T | undefined {
		const peer = this.#parked.get(name)?.peer;
		if (peer === undefined) return undefined;
		if (Buffer.compare(peer.metadata, metadata) !== 0) {
			this.#forget(name);
			return undefined;
		}
		this.#parked.delete(name);
		return peer;
	}

	/** Forgets all of them without unloading: the agent does that as it ends. */
	close(): void {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		this.#parked.clear();
	}

	#forget(name: string): void {
		const entry = this.#parked.get(name);
		if (entry === undefined) return;
		this.#parked.delete(name);
		this.#unload(entry.peer);
	}

	#arm(): void {
		const oldest = this.#parked.values().next();
		if (this.#timer !== undefined || oldest.done) return;
		const wait = Math.max(1, oldest.value.until - performance.now());
		this.#timer = setTimeout(() => {
			this.#timer = undefined;
			const now = performance.now();
			for (const [name, { until }] of this.#parked) {
				if (until > now) break;
				this.#forget(name);
			}
			this.#arm();
		}, wait).unref();
	}
}
