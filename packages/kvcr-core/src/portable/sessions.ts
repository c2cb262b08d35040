/** What a target remembers of each link, so that a writer which lost its connection can learn how far its writes came. */
import { MAX_REMEMBERED_REFUSALS } from "./frames.js";

/** Links remembered at least; the one that was idle longest is forgotten first. */
const MIN_SESSIONS = 4_096;

/** The connection that serves a link. */
export interface LinkConnection {
	readonly live: boolean;
	end(): void;
}

/** Memory of one link. */
export class Session {
	/** The connection that serves the link now, or served it last. */
	connection: LinkConnection | undefined;
	#processed = 0;
	readonly #refused: number[] = [];

	/** Sequence number of the last write that was carried out, refused or aborted. */
	get processed(): number {
		return this.#processed;
	}

	/** The latest sequence numbers that were not carried out, oldest first. */
	get refused(): readonly number[] {
		return this.#refused;
	}

	/** Notes the end of a write. */
	finished(sequence: number, done: boolean): void {
		this.#processed = sequence;
		if (done) return;
		this.#refused.push(sequence);
		if (this.#refused.length > MAX_REMEMBERED_REFUSALS) this.#refused.shift();
	}
}

/** The links of one agent. */
export class Sessions {
	readonly #byLink = new Map<string, Session>();
	readonly #most: number;

	/** @param maxPeers connections at a time: all of their links are remembered */
	constructor(maxPeers: number) {
		this.#most = Math.max(MIN_SESSIONS, maxPeers);
	}

	/** Ends the connection of a link that comes back. Nothing is remembered of a link that is not known. */
	endConnectionOf(linkId: string): void {
		this.#byLink.get(linkId)?.connection?.end();
	}

	/** The session of a link, served by `connection` from now on. */
	open(linkId: string, connection: LinkConnection): Session {
		this.endConnectionOf(linkId);
		const session = this.#byLink.get(linkId) ?? new Session();
		session.connection = connection;
		// A map keeps the order of insertion: the first entry is the one idle longest.
		this.#byLink.delete(linkId);
		this.#byLink.set(linkId, session);
		if (this.#byLink.size > this.#most) this.#forgetOne();
		return session;
	}

	/** Links that come and go must not push out one that is in use, or a single peer could cut off all others. */
	#forgetOne(): void {
		for (const [linkId, { connection }] of this.#byLink) {
			if (connection?.live) continue;
			this.#byLink.delete(linkId);
			return;
		}
	}
}
