/** A managed cache on a manual clock, with scripted listeners. */
import {
	type AdmissionOutcome,
	ManagedCache,
	type ManagedCacheOptions,
	type Residency,
} from "../src/cache/index.js";
import {
	type BlockMeta,
	type KVCachePolicy,
	keyText,
	type MemoryRegion,
} from "../src/ports/index.js";
import { ManualClock } from "../src/testing/manual-clock.js";

/** A region whose elements are small real buffers. */
export function testRegion(slots: number, elementBytes = 8): MemoryRegion {
	const bytes = new Uint8Array(slots * elementBytes);
	return {
		label: "",
		elementBytes,
		elementCount: slots,
		descriptor: {
			memType: "DRAM",
			deviceId: 0,
			addr: 0n,
			stride: 0,
			count: slots,
			size: elementBytes,
			label: "",
		},
		released: false,
		element: (index) =>
			bytes.subarray(index * elementBytes, (index + 1) * elementBytes),
		release: () => {},
	};
}

/** LRU that a test can bend. */
export class ScriptedPolicy implements KVCachePolicy {
	readonly calls: string[] = [];
	ingest: (meta: BlockMeta) => "keep" | "drop" = () => "keep";
	score: (meta: BlockMeta) => number = (meta) => meta.lastAccess;
	eviction: (meta: BlockMeta) => "evict" | "keep" = () => "evict";
	recovery: () => "fail" | "wait" = () => "wait";

	decideIngest(meta: BlockMeta): "keep" | "drop" {
		this.calls.push(`ingest? ${keyText(meta.key)}`);
		return this.ingest(meta);
	}
	evictionScore(meta: BlockMeta): number {
		this.calls.push(`score ${keyText(meta.key)}`);
		return this.score(meta);
	}
	decideEviction(meta: BlockMeta): "evict" | "keep" {
		this.calls.push(`evict? ${keyText(meta.key)}`);
		return this.eviction(meta);
	}
	onIngest(meta: BlockMeta): void {
		this.calls.push(`ingested ${keyText(meta.key)}`);
	}
	onRemove(meta: BlockMeta): void {
		this.calls.push(`removed ${keyText(meta.key)}`);
	}
	decideRecovery(): "fail" | "wait" {
		return this.recovery();
	}
}

/** What the cache logged. */
export interface Log {
	readonly warnings: { readonly fields: object; readonly message: string }[];
}

/** A cache and everything around it. */
export interface Rig {
	readonly cache: ManagedCache;
	readonly clock: ManualClock;
	readonly log: Log;
	/** Inventory events as text: `"+a,b"` came, `"-a"` left. */
	readonly events: string[];
	/** Number of wake-ups. */
	readonly wakes: { count: number };
	/** Admits and returns the outcomes. */
	admit(
		keys: string,
		layout?: readonly string[],
		protect?: readonly string[],
	): AdmissionOutcome[];
	/** Admits, completes and unclaims single letters: `"abc"` makes three ready blocks. */
	place(keys: string, layout?: readonly string[]): Residency[];
	/** Letters of the known keys, sorted. */
	known(): string;
	at(key: string): Residency;
}

const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Pools are given as name to slots. */
export function rig(
	pools: Readonly<Record<string, number>>,
	options: Partial<ManagedCacheOptions> = {},
): Rig {
	const clock = new ManualClock(1000);
	const log: Log = { warnings: [] };
	const events: string[] = [];
	const wakes = { count: 0 };
	const cache = new ManagedCache({
		pools: Object.entries(pools).map(([name, slots]) => ({
			name,
			region: testRegion(slots),
		})),
		clock,
		logger: {
			debug: () => {},
			info: () => {},
			warn: (fields, message) => log.warnings.push({ fields, message }),
			error: () => {},
		},
		inventorySink: ({ keys, removed }) =>
			events.push(`${removed ? "-" : "+"}${keys.map(keyText).join()}`),
		onOwnerWork: () => {
			wakes.count += 1;
		},
		...options,
	});
	const single = [Object.keys(pools)[0] as string];
	const self: Rig = {
		cache,
		clock,
		log,
		events,
		wakes,
		admit: (keys, layout = single, protect) =>
			cache.admit(
				[...keys].map((text) => ({ keyText: text, layout })),
				"deposit",
				protect && new Set(protect),
			),
		place: (keys, layout = single) =>
			[...keys].map((key) => {
				const residency = reserved(self.admit(key, layout)[0]);
				cache.completeFill(residency);
				cache.unclaim(residency);
				cache.settle();
				clock.advance(1);
				return residency;
			}),
		known: () =>
			[...LETTERS].filter((letter) => cache.get(letter) !== undefined).join(""),
		at: (key) => {
			const residency = cache.get(key);
			if (residency === undefined) throw new Error(`${key} is not resident`);
			return residency;
		},
	};
	return self;
}

/** The residency of an outcome that must be `reserved`. */
export function reserved(outcome: AdmissionOutcome | undefined): Residency {
	if (outcome?.kind !== "reserved")
		throw new Error(`expected reserved, got ${outcome?.kind}`);
	return outcome.residency;
}

/** The kinds of outcomes. */
export function kinds(outcomes: readonly AdmissionOutcome[]): string {
	return outcomes.map((outcome) => outcome.kind).join();
}
