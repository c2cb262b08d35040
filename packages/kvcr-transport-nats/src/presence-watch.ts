/**
 * Which peers are there. A watcher listens to the announcements of all peers and asks for them once when it begins (and
 * after each reconnect); nothing but the NATS server is needed, and no peer keeps a list of the others.
 */
import {
	type Clock,
	callOut,
	checkObject,
	InvalidArgumentError,
	type Logger,
	type Timer,
} from "kvcr-core";
import type { NatsControlChannel } from "./channel.js";
import type { Link } from "./link.js";
import { linkFor } from "./link-of.js";
import type { LinkSubscription } from "./link-types.js";
import type { NatsLike, NatsLikeMessage } from "./nats-like.js";
import { boundedInteger, clockOf, loggerOf } from "./options.js";
import { DEFAULT_PREFIX, SubjectSpace } from "./subjects.js";

/** One peer as last heard. */
export interface PeerPresence {
	/** Its name below the prefix. */
	readonly peer: string;
	/** Where to send control messages. */
	readonly endpoint: string;
	/** Identity of the running instance; changes at a restart. */
	readonly instance: string;
	/** Time of the last announcement on the watcher's clock, in milliseconds. */
	readonly lastSeenMs: number;
}

/** What happened to a peer: it appeared, came back as another instance, said goodbye, or has not been heard in time. */
export type PeerChange = "joined" | "restarted" | "left" | "expired";

/** Options of {@link watchPeers}. */
export interface WatchPeersOptions {
	/** @default the channel's prefix, or "kvcr" over a connection */
	prefix?: string;
	/** Called for each change. Must not throw; a watcher survives it anyway. */
	onChange?: (change: PeerChange, peer: PeerPresence) => void;
	/**
	 * Most peers kept; announcements of further ones are dropped and counted.
	 * @default 4096
	 */
	maxPeers?: number;
	/** @default silentLogger */
	logger?: Logger;
	/** @default systemClock */
	clock?: Clock;
}

/** A running watch. */
export interface PeerWatch {
	/** The peers now, ordered by name. */
	peers(): readonly PeerPresence[];
	/** Announcements dropped, by reason: `"malformed"`, `"too_many_peers"`; and failures of `onChange`: `"listener_failed"`. */
	dropped(): Readonly<Record<string, number>>;
	/** Asks all peers to announce themselves; the answers come as changes. */
	refresh(): void;
	/** Ends the watch. The connection or channel stays open. */
	close(): Promise<void>;
}

/** A peer is gone when nothing was heard for this many of its own intervals. */
const MISSED_INTERVALS = 3;

/** Bounds of what an announcement may say, so that nobody can stay for ever or hold large strings here. */
const ANNOUNCEMENT = {
	maxBytes: 512,
	minIntervalMs: 100,
	maxIntervalMs: 600_000,
} as const;

/**
 * Watches which peers are there, over a started channel or a caller's connection.
 * @throws InvalidArgumentError, NatsConnectionError, NatsPermissionError
 */
export async function watchPeers(
	source: NatsControlChannel | NatsLike,
	options: WatchPeersOptions = {},
): Promise<PeerWatch> {
	const operation = "watchPeers";
	checkObject(operation, "source", source);
	checkObject(operation, "options", options);
	const prefix =
		options.prefix ??
		("prefix" in source ? source.prefix : undefined) ??
		DEFAULT_PREFIX;
	const subjects = new SubjectSpace(prefix, operation);
	const maxPeers = boundedInteger(
		options.maxPeers,
		4_096,
		1,
		1 << 20,
		operation,
		"maxPeers",
	);
	if (options.onChange !== undefined && typeof options.onChange !== "function")
		throw new InvalidArgumentError(
			operation,
			"onChange",
			options.onChange,
			"a function",
		);
	const clock = clockOf(options.clock, operation);
	const logger = loggerOf(options.logger, operation);
	const { link, own } = await linkFor(source, operation, clock, logger);
	const watch = new Watch(
		link,
		own,
		subjects,
		maxPeers,
		options.onChange,
		clock,
	);
	try {
		await link.confirm(operation, watch.subscription);
	} catch (error) {
		await watch.close();
		throw error;
	}
	watch.refresh();
	return watch;
}

interface Entry {
	presence: PeerPresence;
	expiry: Timer;
}

class Watch implements PeerWatch {
	private readonly table = new Map<string, Entry>();
	private readonly drops: Record<string, number> = {};
	readonly subscription: LinkSubscription;
	private readonly unobserve: () => void;
	private closed = false;

	constructor(
		private readonly link: Link,
		private readonly ownLink: boolean,
		private readonly subjects: SubjectSpace,
		private readonly maxPeers: number,
		private readonly onChange: WatchPeersOptions["onChange"],
		private readonly clock: Clock,
	) {
		this.subscription = link.subscribe(subjects.presenceOfAll, (message) =>
			this.heard(message),
		);
		this.unobserve = link.observe({
			linkUp: () => this.refresh(),
			linkDown: () => {},
		});
	}

	peers(): readonly PeerPresence[] {
		return [...this.table.values()]
			.map((entry) => entry.presence)
			.sort((a, b) => (a.peer < b.peer ? -1 : 1));
	}

	dropped(): Readonly<Record<string, number>> {
		return { ...this.drops };
	}

	refresh(): void {
		if (!this.closed)
			this.link.publish(this.subjects.presenceQuery, new Uint8Array(0));
	}

	async close(): Promise<void> {
		if (this.closed) return;
		this.closed = true;
		this.unobserve();
		this.subscription.unsubscribe();
		for (const entry of this.table.values()) entry.expiry.cancel();
		this.table.clear();
		if (this.ownLink) await this.link.close(0);
	}

	private heard(message: NatsLikeMessage): void {
		if (this.closed) return;
		const peer = this.subjects.peerOfPresence(message.subject);
		const said = readAnnouncement(message.data);
		if (peer === undefined || said === undefined) {
			this.drop("malformed");
			return;
		}
		const before = this.table.get(peer);
		if (said.state === "down") {
			// A late farewell of an earlier instance says nothing about the present one.
			if (before?.presence.instance === said.instance)
				this.forget(peer, "left");
			return;
		}
		if (before === undefined && this.table.size >= this.maxPeers) {
			this.drop("too_many_peers");
			return;
		}
		before?.expiry.cancel();
		const presence: PeerPresence = {
			peer,
			endpoint: this.subjects.endpointOf(peer, "watchPeers"),
			instance: said.instance,
			lastSeenMs: this.clock.now(),
		};
		const expiry = this.clock.schedule(said.intervalMs * MISSED_INTERVALS, () =>
			this.forget(peer, "expired"),
		);
		this.table.set(peer, { presence, expiry });
		if (before === undefined) this.tell("joined", presence);
		else if (before.presence.instance !== said.instance)
			this.tell("restarted", presence);
	}

	private forget(peer: string, why: "left" | "expired"): void {
		const entry = this.table.get(peer);
		if (entry === undefined) return;
		entry.expiry.cancel();
		this.table.delete(peer);
		this.tell(why, entry.presence);
	}

	private tell(change: PeerChange, presence: PeerPresence): void {
		callOut(
			() => this.onChange?.(change, presence),
			() => this.drop("listener_failed"),
		);
	}

	private drop(reason: string): void {
		this.drops[reason] = (this.drops[reason] ?? 0) + 1;
	}
}

function readAnnouncement(
	bytes: Uint8Array,
): { instance: string; state: "up" | "down"; intervalMs: number } | undefined {
	if (bytes.byteLength > ANNOUNCEMENT.maxBytes) return undefined;
	let value: unknown;
	try {
		value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
	} catch {
		return undefined;
	}
	if (typeof value !== "object" || value === null) return undefined;
	const { instance, state, interval_ms } = value as Record<string, unknown>;
	if (typeof instance !== "string" || !/^[0-9a-f]{32}$/.test(instance))
		return undefined;
	if (state !== "up" && state !== "down") return undefined;
	if (
		typeof interval_ms !== "number" ||
		!(interval_ms >= ANNOUNCEMENT.minIntervalMs) ||
		!(interval_ms <= ANNOUNCEMENT.maxIntervalMs)
	)
		return undefined;
	return { instance, state, intervalMs: interval_ms };
}
