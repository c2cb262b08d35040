/** What a target remembers of each link, so that a writer which lost its connection can learn how far its writes came. */
import { MAX_REMEMBERED_REFUSALS } from "./frames.js";

/** Links remembered; the one that was idle longest is forgotten first. */
const MAX_SESSIONS = 4_096;

/** Memory of one link. */
export class Session {
	/** Ends the connection that serves the link now. */
	endConnection: () => void = () => {};
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

	/** The session of a link, whose former connection is ended first. */
	open(linkId: string, endConnection: () => void): Session {
		const session = this.#byLink.get(linkId) ?? new Session();
		session.endConnection();
		session.endConnection = endConnection;
		// A map keeps the order of insertion: the first entry is the one idle longest.
		this.#byLink.delete(linkId);
		this.#byLink.set(linkId, session);
		if (this.#byLink.size > MAX_SESSIONS) {
			const [oldest] = this.#byLink.keys();
			this.#byLink.get(oldest as string)?.endConnection();
			this.#byLink.delete(oldest as string);
		}
		return session;
	}
}
