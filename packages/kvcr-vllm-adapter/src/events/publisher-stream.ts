/**
 * Everything one endpoint sends, without sockets: frames go in, the map is fed, replays are asked for. Data-parallel ranks
 * that share an endpoint count and are credited each on their own.
 */
import { callOut, guardedLogger, type Logger } from "kvcr-core";
import type { ReverseHashMap } from "../reverse-map/reverse-hash-map.js";
import { type CreditStats, PublisherCredit } from "./credit.js";
import {
	decodeEventBatch,
	IntegerHashesError,
	type KvEventBatch,
	MalformedEventsError,
} from "./decode.js";
import {
	type ClearReason,
	Sequencer,
	type SequencerLimits,
	type SequencerStats,
} from "./sequencer.js";
import type { Sweeper } from "./sweeper.js";

/** Why a frame or event did not count. */
export type DropReason =
	| "malformed"
	| "too_large"
	/** ZeroMQ gave the connection up: a frame beyond all bounds, or bytes that are no frames. What was missed is a gap. */
	| "connection_given_up"
	| "bad_sequence"
	| "too_many_ranks"
	| "unknown_tag"
	| "invalid_event"
	| "integer_hashes"
	| "not_applied";

/** Counters of one endpoint, all its ranks together. */
export interface PublisherStats extends CreditStats, SequencerStats {
	/** Batches of the live stream and of replays that could be read. */
	batches: number;
	/** Frames and events that did not count, by reason. */
	readonly dropped: Readonly<Record<DropReason, number>>;
	/** Times everything credited to a rank was taken back, by reason. */
	readonly clears: Readonly<Record<ClearReason | "integer_hashes", number>>;
}

/** Asks for a replay; `cancel` ends the one under way without a further call. */
export interface ReplayRequests {
	request(rank: number | undefined, seq: number): void;
	cancel(rank: number | undefined): void;
}

export interface PublisherStreamOptions extends SequencerLimits {
	/** The endpoint, for log lines. */
	readonly name: string;
	readonly map: ReverseHashMap;
	readonly sweeper: Sweeper;
	readonly replays: ReplayRequests;
	readonly logger: Logger;
	/** Told once about integer hashes, which somebody must act on. */
	readonly onError: (error: IntegerHashesError) => void;
	/** Bytes of a payload. */
	readonly maxPayloadBytes: number;
}

/** Ranks one endpoint may speak for. */
const MAX_RANKS = 64;
/** The sequence number that ends a replay. */
const END_OF_REPLAY = 0xffff_ffff_ffff_ffffn;

interface Rank {
	readonly sequencer: Sequencer<KvEventBatch>;
	readonly credit: PublisherCredit;
}

/** See the comment at the top of this file. */
export class PublisherStream {
	readonly #options: PublisherStreamOptions;
	readonly #ranks = new Map<number | undefined, Rank>();
	readonly #logged = new Set<string>();
	#untilFree: (() => void)[] = [];
	#closed = false;
	#batches = 0;
	readonly #dropped: Record<DropReason, number> = {
		malformed: 0,
		too_large: 0,
		connection_given_up: 0,
		bad_sequence: 0,
		too_many_ranks: 0,
		unknown_tag: 0,
		invalid_event: 0,
		integer_hashes: 0,
		not_applied: 0,
	};
	readonly #clears: Record<ClearReason | "integer_hashes", number> = {
		gap_not_replayable: 0,
		restarted: 0,
		overflow: 0,
		integer_hashes: 0,
	};

	constructor(options: PublisherStreamOptions) {
		this.#options = { ...options, logger: guardedLogger(options.logger) };
	}

	/** A message of the live stream: `[topic, sequence, payload]`. Never throws for what is in it. */
	live(frames: readonly Uint8Array[]): void {
		const read = this.#read(frames);
		// Reading may report, and whoever is told may close.
		if (this.#closed || read === undefined || read === "end") return;
		const rank = this.#rank(read.batch.rank);
		if (rank === undefined) return;
		rank.sequencer.live(read);
		if (!this.#logged.has("stale") && rank.sequencer.stats().stale > 0)
			this.#once(
				"stale",
				"a batch of KV events was older than what was applied already (further ones are only counted)",
				{ rank: read.batch.rank, seq: read.seq },
			);
	}

	/** A message of a replay: `[empty, topic?, sequence, payload]`. True when it was the last one. */
	replayed(rank: number | undefined, frames: readonly Uint8Array[]): boolean {
		const read = this.#read(frames);
		if (this.#closed || read === "end") return true;
		// A replay brings all ranks of the endpoint; the others ask for themselves.
		if (read !== undefined && read.batch.rank === rank)
			this.#ranks.get(rank)?.sequencer.replayed(read);
		return false;
	}

	/** The connection to the publisher broke. */
	interrupted(): void {
		for (const { sequencer } of this.#ranks.values()) sequencer.interrupted();
	}

	/** The connection was not only broken, but is not coming back by itself. */
	connectionGivenUp(): void {
		this.#drop("connection_given_up", {});
	}

	/** The replay asked for is over, one way or another. */
	replayEnded(rank: number | undefined): void {
		this.#ranks.get(rank)?.sequencer.replayEnded();
	}

	/**
	 * Resolves as soon as nothing waits for a tier of the map; `undefined` when nothing does. Whoever reads messages should
	 * read no more until then: they wait in order in the socket, within its bounds.
	 */
	whenFree(): Promise<void> | undefined {
		if (!this.#isHeld()) return undefined;
		return new Promise((resolve) => this.#untilFree.push(resolve));
	}

	stats(): PublisherStats {
		const sum: CreditStats & SequencerStats = {
			storedBlocks: 0,
			removedBlocks: 0,
			cleared: 0,
			tierLimit: 0,
			mapFull: 0,
			gaps: 0,
			replays: 0,
			recovered: 0,
			stale: 0,
		};
		for (const { credit, sequencer } of this.#ranks.values()) {
			const parts = { ...credit.stats(), ...sequencer.stats() };
			for (const name of Object.keys(sum) as (keyof typeof sum)[])
				sum[name] += parts[name];
		}
		return {
			...sum,
			batches: this.#batches,
			dropped: { ...this.#dropped },
			clears: { ...this.#clears },
		};
	}

	/**
	 * Takes everything credited to this endpoint out of the map, for good: what comes later, or is just being applied, does not
	 * count.
	 */
	close(): void {
		this.#closed = true;
		for (const { credit } of this.#ranks.values()) credit.close();
	}

	/** Sequence and payload are the last two frames; what comes before differs between releases. */
	#read(frames: readonly Uint8Array[]) {
		const payload = frames[frames.length - 1];
		const number = frames[frames.length - 2];
		if (payload === undefined || number?.length !== 8)
			return this.#drop("bad_sequence", { frames: frames.length });
		const view = new DataView(number.buffer, number.byteOffset, 8);
		const seq = view.getBigUint64(0);
		if (seq === END_OF_REPLAY && payload.length === 0) return "end";
		if (seq > BigInt(Number.MAX_SAFE_INTEGER))
			return this.#drop("bad_sequence", { seq });
		if (payload.length > this.#options.maxPayloadBytes)
			return this.#drop("too_large", { seq, bytes: payload.length });
		try {
			const batch = decodeEventBatch(payload);
			this.#batches++;
			const bytes = payload.length + objectBytes(batch);
			return { seq: Number(seq), ts: batch.ts, bytes, batch };
		} catch (error) {
			if (!(error instanceof MalformedEventsError)) throw error;
			return this.#drop("malformed", { seq, reason: error.message });
		}
	}

	#rank(rank: number | undefined): Rank | undefined {
		const known = this.#ranks.get(rank);
		if (known !== undefined) return known;
		if (this.#ranks.size >= MAX_RANKS)
			return this.#drop("too_many_ranks", { rank });
		const { map, sweeper, replays } = this.#options;
		const credit = new PublisherCredit(map, sweeper, {
			failed: (error) => this.#drop("not_applied", { error }),
			freed: () => {
				this.#tellFull(credit);
				if (!this.#isHeld())
					for (const resolve of this.#untilFree.splice(0)) resolve();
			},
		});
		const sequencer = new Sequencer<KvEventBatch>(
			{
				apply: (batch) => this.#apply(batch, credit),
				clear: (reason) => this.#clear(reason, rank, credit),
				requestReplay: (seq) => replays.request(rank, seq),
				cancelReplay: () => replays.cancel(rank),
			},
			this.#options,
		);
		const made = { credit, sequencer };
		this.#ranks.set(rank, made);
		return made;
	}

	/** Must not throw: the sequencer counts a batch as done, and would stop in the middle of a recovery. */
	#apply(batch: KvEventBatch, credit: PublisherCredit): void {
		if (batch.unknownTags > 0) this.#drop("unknown_tag", {}, batch.unknownTags);
		if (batch.invalidEvents > 0)
			this.#drop("invalid_event", {}, batch.invalidEvents);
		if (this.#closed) return;
		if (batch.integerHashes > 0) {
			this.#refuse(batch, credit);
			return;
		}
		credit.apply(batch.events);
		this.#tellFull(credit);
	}

	#isHeld(): boolean {
		for (const { credit } of this.#ranks.values()) if (credit.held) return true;
		return false;
	}

	#tellFull(credit: PublisherCredit): void {
		const { tierLimit, mapFull } = credit.stats();
		if (tierLimit > 0)
			this.#once(
				"tier_limit",
				"KV events dropped: all tiers of the reverse hash map are taken, or one publisher names too many places",
				{},
			);
		if (mapFull > 0)
			this.#once(
				"map_full",
				"KV events dropped: the reverse hash map is full",
				{},
			);
	}

	/**
	 * Integers name no full key, so what this publisher holds cannot be known: nothing stays credited to it, and the rest of
	 * the batch does not count, since an integer in it may have removed what a full hash stored.
	 */
	#refuse(batch: KvEventBatch, credit: PublisherCredit): void {
		const first = this.#dropped.integer_hashes === 0;
		this.#dropped.integer_hashes += batch.integerHashes;
		this.#clears.integer_hashes++;
		credit.clear();
		if (!first) return;
		const error = new IntegerHashesError(this.#options.name);
		this.#options.logger.error({ code: error.code }, error.message);
		callOut(() => this.#options.onError(error));
	}

	#clear(
		reason: ClearReason,
		rank: number | undefined,
		credit: PublisherCredit,
	): void {
		this.#clears[reason]++;
		credit.clear();
		const { name, logger } = this.#options;
		// Two publishers taken for one are a reason with every batch: the first, the second, the fourth… are logged.
		const times = this.#clears[reason];
		if ((times & (times - 1)) !== 0) return;
		logger.warn(
			{ publisher: name, rank, reason, times },
			"KV events were lost: blocks of this publisher are forgotten until it reports them again",
		);
	}

	#drop(reason: DropReason, fields: object, count = 1): undefined {
		this.#dropped[reason] += count;
		this.#once(
			reason,
			"KV events dropped (further ones are only counted)",
			fields,
		);
	}

	#once(kind: string, message: string, fields: object): void {
		if (this.#logged.has(kind)) return;
		this.#logged.add(kind);
		this.#options.logger.warn(
			{ publisher: this.#options.name, reason: kind, ...fields },
			message,
		);
	}
}

/** Estimated memory of a decoded event and of a hash in it, which a batch takes beside its payload while it waits. */
const EVENT_BYTES = 160;
const HASH_BYTES = 160;

function objectBytes({ events }: KvEventBatch): number {
	let bytes = events.length * EVENT_BYTES;
	for (const event of events)
		if (event.kind !== "cleared") bytes += event.hashes.length * HASH_BYTES;
	return bytes;
}
