/**
 * What a destination knows about its sources, by control endpoint: which incarnation answers there, under which agent name,
 * and whether it has acknowledged our metadata. A write is only ever requested from a known incarnation, so that a
 * request which arrives late, at the process after the one it was meant for, is refused there.
 */
import type {
	Clock,
	Incarnation,
	Timer,
	TrafficExpectation,
} from "../ports/index.js";
import { RecencyMap } from "../progress/recency-map.js";
import type { MessageHeader, PeerMetadata } from "../protocol/index.js";
import type { ControlLink } from "./control-link.js";

/** Told once when the incarnation behind an endpoint is known. */
export interface SourceWaiter {
	sourceKnown(incarnation: Incarnation): void;
}

interface Source {
	readonly endpoint: string;
	incarnation: Incarnation | undefined;
	agentName: string | undefined;
	acknowledged: boolean;
	/** Our metadata is on its way there: an acknowledgement is expected, and only then believed. */
	introduced: boolean;
	/** No metadata goes out before this time unless the message needs it. */
	retryAfter: number;
	readonly waiters: Set<SourceWaiter>;
	retryTimer: Timer | undefined;
	expectation: TrafficExpectation | undefined;
	expectationTimer: Timer | undefined;
}

/** What the directory needs. */
export interface SourceDirectoryOptions {
	readonly clock: Clock;
	readonly link: ControlLink;
	/** Our own metadata and regions, as sent to sources. */
	readonly localPeer: () => PeerMetadata;
	readonly expectTraffic: () => TrafficExpectation;
	/** Milliseconds between repeated `target_metadata` to a source that does not acknowledge. */
	readonly retryIntervalMs: number;
	/** How long an incoming connection is expected after a handshake, in milliseconds. */
	readonly connectWindowMs: number;
	/** Sources remembered at most; the longest unused goes first. */
	readonly maxSources: number;
	/** Called when an endpoint turns out to be another incarnation than was known, or is heard of for the first time. */
	readonly onIncarnation: (endpoint: string, incarnation: Incarnation) => void;
}

export class SourceDirectory {
	readonly #options: SourceDirectoryOptions;
	readonly #sources = new RecencyMap<string, Source>();

	constructor(options: SourceDirectoryOptions) {
		this.#options = options;
	}

	get size(): number {
		return this.#sources.size;
	}

	/** Incarnation known for an endpoint. */
	incarnationOf(endpoint: string): Incarnation | undefined {
		return this.#sources.get(endpoint)?.incarnation;
	}

	/** Agent name known for an endpoint. */
	agentNameOf(endpoint: string): string | undefined {
		return this.#sources.get(endpoint)?.agentName;
	}

	/** Introduces this instance ahead of need, unless the source has acknowledged already. */
	connect(endpoint: string): void {
		const source = this.#touch(endpoint);
		if (source.acknowledged || this.#options.clock.now() < source.retryAfter)
			return;
		this.#introduce(source);
	}

	/**
	 * Calls the waiter as soon as the incarnation is known, at once when it is; introduces this instance, repeatedly, until
	 * then. False when the channel refused the first introduction.
	 */
	await(endpoint: string, waiter: SourceWaiter): boolean {
		const source = this.#touch(endpoint);
		if (source.incarnation !== undefined) {
			waiter.sourceKnown(source.incarnation);
			return true;
		}
		source.waiters.add(waiter);
		if (source.retryTimer !== undefined) return true;
		if (
			this.#options.clock.now() >= source.retryAfter &&
			!this.#introduce(source)
		) {
			source.waiters.delete(waiter);
			return false;
		}
		this.#armRetry(source);
		return true;
	}

	/** Takes a waiter back. */
	forgetWaiter(endpoint: string, waiter: SourceWaiter): void {
		const source = this.#sources.get(endpoint);
		if (
			source === undefined ||
			!source.waiters.delete(waiter) ||
			source.waiters.size > 0
		)
			return;
		source.retryTimer?.cancel();
		source.retryTimer = undefined;
	}

	/**
	 * An endpoint acknowledged our metadata. Believed only while one is expected: a message says itself where it comes from,
	 * so what nobody asked for must not be able to replace what is known.
	 */
	acknowledge(endpoint: string, header: MessageHeader): void {
		const source = this.#sources.get(endpoint);
		if (source === undefined || !source.introduced) return;
		source.introduced = false;
		this.#identify(source, header);
		source.acknowledged = true;
		source.retryAfter = Number.NEGATIVE_INFINITY;
		this.#tellWaiters(source);
	}

	/** An endpoint answered a question that only it can have seen: who answers there is known now. */
	identify(endpoint: string, header: MessageHeader): void {
		const source = this.#sources.get(endpoint);
		if (source === undefined) return;
		this.#identify(source, header);
		this.#tellWaiters(source);
	}

	/** Forgets what is known: the next request introduces this instance again. */
	invalidate(endpoint: string): void {
		const source = this.#sources.get(endpoint);
		if (source === undefined) return;
		source.incarnation = undefined;
		source.acknowledged = false;
		source.introduced = false;
		source.retryAfter = Number.NEGATIVE_INFINITY;
	}

	/** Our metadata, when a message to this endpoint has to carry it; `urgent` messages ignore the rate limit. */
	metadataFor(endpoint: string, urgent: boolean): PeerMetadata | undefined {
		const source = this.#touch(endpoint);
		if (source.acknowledged) return undefined;
		const now = this.#options.clock.now();
		if (!urgent && now < source.retryAfter) return undefined;
		source.retryAfter = now + this.#options.retryIntervalMs;
		source.introduced = true;
		return this.#options.localPeer();
	}

	/** Releases timers and expectations. */
	close(): void {
		for (const source of this.#sources.values()) this.#dispose(source);
		this.#sources.clear();
	}

	#identify(source: Source, header: MessageHeader): void {
		if (source.incarnation !== header.senderIncarnation) {
			source.acknowledged = false;
			source.introduced = false;
			source.incarnation = header.senderIncarnation;
			this.#options.onIncarnation(source.endpoint, header.senderIncarnation);
		}
		source.agentName = header.targetAgent;
	}

	#tellWaiters(source: Source): void {
		const { incarnation } = source;
		if (source.waiters.size === 0 || incarnation === undefined) return;
		source.retryTimer?.cancel();
		source.retryTimer = undefined;
		const waiters = [...source.waiters];
		source.waiters.clear();
		for (const waiter of waiters) waiter.sourceKnown(incarnation);
	}

	#introduce(source: Source): boolean {
		const { clock, link, localPeer, retryIntervalMs } = this.#options;
		source.retryAfter = clock.now() + retryIntervalMs;
		source.introduced = true;
		// The source connects to us as soon as it knows us: be there to answer.
		this.#expect(source);
		return link.request(source.endpoint, {
			type: "target_metadata",
			peer: localPeer(),
		});
	}

	#armRetry(source: Source): void {
		source.retryTimer = this.#options.clock.schedule(
			this.#options.retryIntervalMs,
			() => {
				source.retryTimer = undefined;
				if (source.waiters.size === 0) return;
				this.#introduce(source);
				this.#armRetry(source);
			},
		);
	}

	#expect(source: Source): void {
		source.expectation ??= this.#options.expectTraffic();
		source.expectationTimer?.cancel();
		source.expectationTimer = this.#options.clock.schedule(
			this.#options.connectWindowMs,
			() => {
				source.expectationTimer = undefined;
				source.expectation?.end();
				source.expectation = undefined;
			},
		);
	}

	#touch(endpoint: string): Source {
		const known = this.#sources.use(endpoint);
		if (known !== undefined) return known;
		const source: Source = {
			endpoint,
			incarnation: undefined,
			agentName: undefined,
			acknowledged: false,
			introduced: false,
			retryAfter: Number.NEGATIVE_INFINITY,
			waiters: new Set(),
			retryTimer: undefined,
			expectation: undefined,
			expectationTimer: undefined,
		};
		this.#makeRoom();
		this.#sources.set(endpoint, source);
		return source;
	}

	#makeRoom(): void {
		if (this.#sources.size < this.#options.maxSources) return;
		for (const [endpoint, source] of this.#sources) {
			if (source.waiters.size > 0) continue;
			this.#dispose(source);
			this.#sources.delete(endpoint);
			return;
		}
	}

	#dispose(source: Source): void {
		source.retryTimer?.cancel();
		source.expectationTimer?.cancel();
		source.expectation?.end();
		source.waiters.clear();
	}
}
