/** The destination's side of hash resolution: asks sources, matches their replies, keeps deadlines. Runs on progress. */
import { randomBytes } from "node:crypto";
import type { Clock } from "../ports/clock.js";
import type { RouterHash } from "../ports/names.js";
import {
	type HashesResolvedMessage,
	type HashResult,
	MAX_HASHES_PER_MESSAGE,
	type MalformedHashesResolvedError,
	type ResolveHashesMessage,
	UNRESOLVED,
} from "../protocol/index.js";
import {
	FULL_REPLY_BYTES,
	MAX_REPLY_RESULT_BYTES,
	resultBytes,
} from "./reply-size.js";
import {
	HashResolutionOp,
	type ResolutionChunk,
	type ResolutionListener,
} from "./resolution-op.js";

/** A `resolve_hashes` without what the sender adds to it. */
export type ResolveHashesBody = Omit<ResolveHashesMessage, "header" | "peer">;

/** Why a reply was ignored: a bounded set, to be counted by. */
export type IgnoredReply =
	| "unknown_id"
	| "late_or_duplicate"
	| "wrong_endpoint";

/** Requests under way to one endpoint at most; what is beyond waits its turn. */
export const MAX_REQUESTS_PER_ENDPOINT = 8;

/** What a resolver needs. */
export interface HashResolverOptions {
	readonly clock: Clock;
	/** Sends a request; false when it was not accepted. */
	readonly send: (endpoint: string, body: ResolveHashesBody) => boolean;
	/** Told of every reply that matches nothing. */
	readonly onIgnored?: (reason: IgnoredReply) => void;
	/** Hashes per request; default and maximum 1,024. */
	readonly hashesPerRequest?: number;
}

/** How to resolve. */
export interface ResolveOptions {
	/** Milliseconds for the whole list. */
	readonly timeoutMs: number;
	/** Told of results as they come. */
	readonly onChunk: ResolutionListener;
}

/** A resolution under way. */
export interface Resolution {
	/** Ends it: what has no result yet gets `closed`. Does nothing when it has ended. */
	cancel(): void;
}

/** What is known about, and waiting for, one endpoint. */
interface Lane {
	inFlight: number;
	hashesPerRequest: number;
	/** Operations with hashes to ask for, each asked for one message at a time in turn. */
	readonly waiting: Set<HashResolutionOp>;
	readonly ops: Set<HashResolutionOp>;
	pumping: boolean;
}

const ID_MASK = 0x7fff_ffff_ffff_ffffn;

/** Resolves lists of hashes at their sources. */
export class HashResolver {
	readonly #options: HashResolverOptions;
	readonly #hashesPerRequest: number;
	readonly #chunks = new Map<bigint, ResolutionChunk>();
	readonly #lanes = new Map<string, Lane>();
	/** Random, so that a reply to an earlier process does not match. */
	readonly #firstId = randomBytes(8).readBigUInt64BE() & ID_MASK;
	#sent = 0n;
	#closed = false;

	constructor(options: HashResolverOptions) {
		this.#options = options;
		this.#hashesPerRequest = Math.min(
			MAX_HASHES_PER_MESSAGE,
			Math.max(1, options.hashesPerRequest ?? MAX_HASHES_PER_MESSAGE),
		);
	}

	/** Requests under way. */
	get inFlight(): number {
		return this.#chunks.size;
	}

	/** Endpoints with an operation under way. */
	get endpoints(): number {
		return this.#lanes.size;
	}

	/**
	 * Asks `endpoint` for full keys. Every hash gets exactly one result, through `onChunk`; `onDone` follows the last. Both may
	 * be called before this returns. A list beyond 1,024 hashes goes out in several requests under the one deadline.
	 */
	resolve(
		endpoint: string,
		hashes: readonly RouterHash[],
		options: ResolveOptions,
		onDone: () => void,
	): Resolution {
		const { clock } = this.#options;
		const op = new HashResolutionOp(
			endpoint,
			hashes,
			clock.now() + options.timeoutMs,
			options.onChunk,
			onDone,
		);
		if (this.#closed) {
			op.fail("closed");
			return { cancel: () => {} };
		}
		if (hashes.length === 0) {
			op.endIfComplete();
			return { cancel: () => {} };
		}
		const lane = this.#lane(endpoint);
		lane.ops.add(op);
		lane.waiting.add(op);
		op.timer = clock.schedule(options.timeoutMs, () =>
			this.#fail(lane, op, "timeout"),
		);
		this.#pump(endpoint, lane);
		return { cancel: () => this.#fail(lane, op, "closed") };
	}

	/** Whether a reply answers a request under way: nobody but the endpoint asked can know its ID. */
	expects(message: HashesResolvedMessage): boolean {
		const chunk = this.#chunks.get(message.resolutionId);
		return chunk?.op.endpoint === message.header.senderControlEndpoint;
	}

	/** Takes a reply. One that matches no request under way is counted and changes nothing. */
	resolved(message: HashesResolvedMessage): void {
		const chunk = this.#match(
			message.resolutionId,
			message.header.senderControlEndpoint,
		);
		if (chunk === undefined) return;
		if (message.results.length === chunk.hashes.length)
			this.#answered(chunk, message.results);
		else this.#answered(chunk, failedLookups(chunk.hashes.length));
	}

	/** Takes a reply that names a request but is malformed otherwise: that request has failed. */
	malformed(error: MalformedHashesResolvedError): void {
		const chunk = this.#match(error.resolutionId, error.senderControlEndpoint);
		if (chunk !== undefined)
			this.#answered(chunk, failedLookups(chunk.hashes.length));
	}

	/** Ends every operation with `closed`, and every later one at once. */
	close(): void {
		if (this.#closed) return;
		this.#closed = true;
		for (const lane of [...this.#lanes.values()])
			for (const op of [...lane.ops]) this.#fail(lane, op, "closed");
	}

	#match(
		id: bigint,
		endpoint: string | undefined,
	): ResolutionChunk | undefined {
		const chunk = this.#chunks.get(id);
		if (chunk !== undefined && chunk.op.endpoint === endpoint) {
			this.#chunks.delete(id);
			return chunk;
		}
		const asked =
			((id - this.#firstId) & ID_MASK) < this.#sent && id <= ID_MASK;
		this.#options.onIgnored?.(
			chunk !== undefined
				? "wrong_endpoint"
				: asked
					? "late_or_duplicate"
					: "unknown_id",
		);
		return undefined;
	}

	#answered(chunk: ResolutionChunk, results: readonly HashResult[]): void {
		const { op } = chunk;
		const lane = this.#lane(op.endpoint);
		op.inFlight.delete(chunk.id);
		lane.inFlight--;
		const answered = this.#answeredCount(lane, results);
		if (answered < results.length) {
			op.giveBack(chunk.hashes.slice(answered));
			lane.waiting.add(op);
			op.deliver(chunk.hashes.slice(0, answered), results.slice(0, answered));
		} else op.deliver(chunk.hashes, results);
		op.endIfComplete();
		if (op.ended) this.#forget(lane, op);
		this.#pump(op.endpoint, lane);
	}

	/**
	 * How many results count. Fewer than there are when the reply was full, so that the source had to end it with failures: then
	 * later requests to this endpoint ask for as much as fits.
	 */
	#answeredCount(lane: Lane, results: readonly HashResult[]): number {
		let last = results.length;
		while (last > 0 && results[last - 1]?.status === "lookup_failed") last--;
		if (last === results.length || last === 0) return results.length;
		let bytes = 0;
		for (let i = 0; i < last; i++)
			bytes += resultBytes(results[i] as HashResult);
		if (bytes < FULL_REPLY_BYTES) return results.length;
		const fitting = Math.floor((last * MAX_REPLY_RESULT_BYTES) / bytes / 2);
		lane.hashesPerRequest = Math.max(
			1,
			Math.min(lane.hashesPerRequest, fitting),
		);
		return last;
	}

	#pump(endpoint: string, lane: Lane): void {
		if (lane.pumping) return;
		lane.pumping = true;
		for (const op of lane.waiting) {
			if (lane.inFlight >= MAX_REQUESTS_PER_ENDPOINT) break;
			// Back to the end of the line if there is more to ask for.
			lane.waiting.delete(op);
			if (!op.ended && op.waiting > 0 && this.#ask(endpoint, lane, op))
				lane.waiting.add(op);
		}
		lane.pumping = false;
		if (lane.ops.size === 0 && lane.inFlight === 0)
			this.#lanes.delete(endpoint);
	}

	/** Sends one request. True when the operation has more to ask for. */
	#ask(endpoint: string, lane: Lane, op: HashResolutionOp): boolean {
		const { clock, send } = this.#options;
		const remainingTimeoutMs = op.deadline - clock.now();
		if (remainingTimeoutMs <= 0) {
			this.#fail(lane, op, "timeout");
			return false;
		}
		const hashes = op.take(lane.hashesPerRequest);
		const id = (this.#firstId + this.#sent++) & ID_MASK;
		const chunk: ResolutionChunk = { op, id, hashes };
		// Known before it is sent: a channel inside one process may answer at once.
		this.#chunks.set(id, chunk);
		op.inFlight.set(id, chunk);
		lane.inFlight++;
		const accepted = send(endpoint, {
			type: "resolve_hashes",
			resolutionId: id,
			hashes,
			remainingTimeoutMs,
		});
		if (!accepted && !op.ended) this.#fail(lane, op, "peer_unreachable");
		return !op.ended && op.waiting > 0;
	}

	#fail(
		lane: Lane,
		op: HashResolutionOp,
		status: "timeout" | "peer_unreachable" | "closed",
	): void {
		if (op.ended) return;
		this.#forget(lane, op);
		op.fail(status);
		this.#pump(op.endpoint, lane);
	}

	/** Takes an operation out of the books; its own state is not touched. */
	#forget(lane: Lane, op: HashResolutionOp): void {
		lane.ops.delete(op);
		lane.waiting.delete(op);
		for (const id of op.inFlight.keys()) {
			this.#chunks.delete(id);
			lane.inFlight--;
		}
	}

	#lane(endpoint: string): Lane {
		let lane = this.#lanes.get(endpoint);
		if (lane === undefined) {
			lane = {
				inFlight: 0,
				hashesPerRequest: this.#hashesPerRequest,
				waiting: new Set(),
				ops: new Set(),
				pumping: false,
			};
			this.#lanes.set(endpoint, lane);
		}
		return lane;
	}
}

function failedLookups(count: number): readonly HashResult[] {
	return new Array<HashResult>(count).fill(UNRESOLVED.lookup_failed);
}
