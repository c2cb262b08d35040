/**
 * The order of one publisher's batches. Live batches and replayed ones arrive on different sockets; whatever comes, batches
 * are applied strictly by sequence number and each at most once. So a replayed store never revives a block that a
 * later batch removed, and a recovery cannot set itself off again.
 *
 * - fresh: nothing was seen yet. A publisher found in mid-stream is asked for its past.
 * - live: the next number is known and batches come in order.
 * - recovering: a number was skipped. Live batches wait while a replay is under way. One replay is asked for per
 *   missing number: what it does not bring is lost, and then everything credited to the publisher is cleared.
 *
 * Numbers alone do not tell a gap from a publisher that restarted and has counted further than before. A replay is
 * therefore asked for from the last batch that was applied: if that one comes with another time, it is another stream, of
 * which all is asked for again.
 */

/** Why everything credited to a publisher was cleared. */
export type ClearReason = "gap_not_replayable" | "restarted" | "overflow";

/** A batch with its place in the stream. */
export interface SequencedBatch<T> {
	readonly seq: number;
	/** Publisher's time of the batch, in seconds. */
	readonly ts: number;
	/** Memory it takes, for the bound on what may wait. */
	readonly bytes: number;
	readonly batch: T;
}

/** What a sequencer causes. Called synchronously; must not call back into the sequencer. */
export interface SequencerSink<T> {
	/** The next batch in order. */
	apply(batch: T): void;
	/** Everything applied so far no longer counts. */
	clear(reason: ClearReason): void;
	/** Asks the publisher for its batches from `seq` on; every answer goes to `replayed`, the end to `replayEnded`. */
	requestReplay(seq: number): void;
	/** The replay under way is no longer of interest. */
	cancelReplay(): void;
}

export interface SequencerLimits {
	/** Whether the publisher can be asked for replays at all. */
	readonly canReplay: boolean;
	/** Live batches that may wait for a replay. */
	readonly maxWaiting: number;
	/** The memory they may take, in bytes. */
	readonly maxWaitingBytes: number;
}

/** So many passed numbers in a row are a publisher that began again. */
const RESTART_RUN = 8;

/** Counters of one sequencer. */
export interface SequencerStats {
	/** Numbers that were skipped, each time one was. */
	gaps: number;
	/** Replays that were asked for. */
	replays: number;
	/** Batches that only a replay brought. */
	recovered: number;
	/** Batches that were older than what was applied already. */
	stale: number;
}

type State<T> =
	| { readonly name: "fresh" }
	| { readonly name: "live"; next: number }
	| {
			readonly name: "recovering";
			next: number;
			/** The missing number the last replay was asked for. */
			asked: number;
			/** Whether the stream is known to be the same as before. */
			verified: boolean;
			readonly waiting: SequencedBatch<T>[];
			waitingBytes: number;
	  };

/** See the comment at the top of this file. */
export class Sequencer<T> {
	readonly #sink: SequencerSink<T>;
	readonly #limits: SequencerLimits;
	#state: State<T> = { name: "fresh" };
	/** Whether anything was applied since the last clear. */
	#holding = false;
	/** Publisher's time of the batch applied last. */
	#appliedTs = Number.NaN;
	/** Whether the connection broke since, so that the next batch may be another stream's. */
	#suspect = false;
	/** Whether it broke since the stream was last proved to be the same: a lower number then is another stream's. */
	#unproved = false;
	/** Publisher's time of the newest batch seen. */
	#newest = Number.NEGATIVE_INFINITY;
	/** Consecutive numbers among those that were passed already. */
	#olderRun = 0;
	#olderNext = -1;
	readonly #stats: SequencerStats = {
		gaps: 0,
		replays: 0,
		recovered: 0,
		stale: 0,
	};

	constructor(sink: SequencerSink<T>, limits: SequencerLimits) {
		this.#sink = sink;
		this.#limits = limits;
	}

	get state(): State<T>["name"] {
		return this.#state.name;
	}

	stats(): SequencerStats {
		return { ...this.#stats };
	}

	/** A batch from the live stream. */
	live(item: SequencedBatch<T>): void {
		const state = this.#state;
		switch (state.name) {
			case "fresh":
				if (item.seq === 0) {
					this.#state = { name: "live", next: 0 };
					this.#accept(item);
				} else this.#recover(0, item);
				return;
			case "live":
				if (item.seq === state.next && !this.#suspect) this.#accept(item);
				else if (item.seq === state.next) this.#recover(state.next, item);
				else if (item.seq > state.next) {
					this.#stats.gaps++;
					this.#recover(state.next, item);
				} else this.#older(item);
				return;
			case "recovering": {
				const last = state.waiting[state.waiting.length - 1];
				if (item.seq <= (last?.seq ?? state.next - 1)) this.#older(item);
				else this.#wait(state, item);
				return;
			}
		}
	}

	/** The connection broke. The publisher that answers next may be a new one, so its stream is checked. */
	interrupted(): void {
		this.#suspect = true;
		this.#unproved = true;
		const state = this.#state;
		if (state.name !== "recovering") return;
		// What waits may be the last of the old stream; the next batch asks again.
		this.#sink.cancelReplay();
		this.#state = this.#holding
			? { name: "live", next: state.next }
			: { name: "fresh" };
	}

	/** A batch that a replay brought. */
	replayed(item: SequencedBatch<T>): void {
		const state = this.#state;
		if (state.name !== "recovering" || item.seq < state.next - 1) return;
		if (item.seq === state.next - 1) {
			if (state.verified) return;
			state.verified = true;
			if (item.ts === this.#appliedTs) {
				this.#unproved = false;
				return;
			}
			this.#restarted(state);
			// The new stream has batches before this one, which nobody has asked for.
			if (item.seq > 0) return;
		} else if (!state.verified) {
			// What was applied last is gone from the replay, and with it the proof that this is its continuation.
			state.verified = true;
			this.#lose();
		}
		if (item.seq > state.next) {
			// The publisher no longer has what came before. Beyond the waiting batches a jump explains nothing.
			if (item.seq > (state.waiting[0]?.seq ?? state.next)) return;
			this.#lose();
			state.next = item.seq;
		}
		this.#stats.recovered++;
		this.#accept(item);
	}

	/** A replay shows that what waits is another stream's, which is unknown from its beginning on. */
	#restarted(state: State<T> & { name: "recovering" }): void {
		this.#clear("restarted");
		this.#unproved = false;
		this.#newest = state.waiting.reduce(
			(newest, { ts }) => Math.max(newest, ts),
			Number.NEGATIVE_INFINITY,
		);
		const whole = state.next === 1;
		state.next = 0;
		if (!whole) this.#ask(state);
	}

	/** The replay is over: it was complete, came to a stop, or could not be had. */
	replayEnded(): void {
		const state = this.#state;
		if (state.name !== "recovering") return;
		if (!state.verified) {
			state.verified = true;
			this.#lose();
		}
		let taken = 0;
		for (; taken < state.waiting.length; taken++) {
			const item = state.waiting[taken] as SequencedBatch<T>;
			if (item.seq < state.next) continue;
			if (item.seq > state.next) {
				if (this.#limits.canReplay && state.next !== state.asked) {
					state.waiting.splice(0, taken);
					state.waitingBytes = state.waiting.reduce(
						(n, { bytes }) => n + bytes,
						0,
					);
					this.#ask(state);
					return;
				}
				this.#lose();
				state.next = item.seq;
			}
			this.#accept(item);
		}
		this.#state = { name: "live", next: state.next };
	}

	#accept(item: SequencedBatch<T>): void {
		const state = this.#state;
		if (state.name === "fresh")
			throw new Error(
				"Sequencer: a batch was accepted before the stream began",
			);
		state.next = item.seq + 1;
		this.#appliedTs = item.ts;
		this.#newest = Math.max(this.#newest, item.ts);
		this.#holding = true;
		this.#sink.apply(item.batch);
	}

	/** Batches were lost for good. What is credited can no longer be trusted; after nothing, nothing is wrong. */
	#lose(): void {
		if (!this.#holding) return;
		this.#holding = false;
		this.#sink.clear("gap_not_replayable");
	}

	#recover(next: number, item: SequencedBatch<T>): void {
		const state: State<T> & { name: "recovering" } = {
			name: "recovering",
			next,
			asked: -1,
			verified: !(this.#suspect && this.#holding),
			waiting: [item],
			waitingBytes: item.bytes,
		};
		this.#state = state;
		this.#suspect = false;
		this.#newest = Math.max(this.#newest, item.ts);
		if (this.#limits.canReplay) this.#ask(state);
		else this.replayEnded();
	}

	#ask(state: State<T> & { name: "recovering" }): void {
		state.asked = state.next;
		state.verified = !this.#holding || state.next === 0;
		this.#stats.replays++;
		this.#sink.requestReplay(state.verified ? state.next : state.next - 1);
	}

	#wait(
		state: State<T> & { name: "recovering" },
		item: SequencedBatch<T>,
	): void {
		this.#newest = Math.max(this.#newest, item.ts);
		state.waiting.push(item);
		state.waitingBytes += item.bytes;
		if (
			state.waiting.length <= this.#limits.maxWaiting &&
			state.waitingBytes <= this.#limits.maxWaitingBytes
		)
			return;
		this.#sink.cancelReplay();
		this.#clear("overflow");
		this.#state = { name: "live", next: item.seq };
		this.#accept(item);
	}

	/**
	 * A number that was passed already. A restarted publisher counts from 0 again, but its clock goes on; anything else is a
	 * leftover, unless the connection broke. Where that went unnoticed and the clocks cannot be compared, a run of
	 * consecutive numbers tells a publisher from leftovers.
	 */
	#older(item: SequencedBatch<T>): void {
		this.#olderRun = item.seq === this.#olderNext ? this.#olderRun + 1 : 1;
		this.#olderNext = item.seq + 1;
		if (
			!this.#unproved &&
			!(item.ts > this.#newest) &&
			this.#olderRun < RESTART_RUN
		) {
			this.#stats.stale++;
			return;
		}
		this.#olderRun = 0;
		if (this.#state.name === "recovering") this.#sink.cancelReplay();
		this.#clear("restarted");
		this.#suspect = false;
		this.#unproved = false;
		this.#newest = Number.NEGATIVE_INFINITY;
		this.#state = { name: "fresh" };
		this.live(item);
	}

	#clear(reason: ClearReason): void {
		this.#holding = false;
		this.#sink.clear(reason);
	}
}
