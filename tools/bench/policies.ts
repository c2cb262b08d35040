/**
 * The built-in placement policies side by side on a skewed trace of shared prefixes.
 *
 * A block counts as a hit when it and all blocks before it in the request are resident: a prefix cache can use nothing
 * behind the first gap. Requests release their blocks from the end, as engines do, which is the kindest order for LRU.
 *
 * Run: `node --conditions=kvcr-source --import tsx tools/bench/policies.ts [--json FILE]`
 */
import {
	FifoPolicy,
	FrequencyPolicy,
	LruPolicy,
	ManagedCache,
	type Residency,
} from "../../packages/kvcr-core/src/cache/index.js";
import {
	type KVCachePolicy,
	silentLogger,
} from "../../packages/kvcr-core/src/ports/index.js";
import { type Figure, hollowRegion, report } from "./cache-figures.js";
import { DEFAULT_TRACE, sharedPrefixTrace } from "./shared-prefix-trace.js";

const SIZES = [1_000, 4_000, 16_000];
const LAYOUT = [""];

/** Share of requested blocks that were resident together with everything before them. */
function hitRatio(policy: KVCachePolicy, slots: number): number {
	let now = 0;
	const clock = { now: () => now, schedule: () => ({ cancel: () => {} }) };
	const cache = new ManagedCache({
		pools: [{ name: "", region: hollowRegion(slots) }],
		policy,
		clock,
		logger: silentLogger,
	});
	let hits = 0;
	let blocks = 0;
	for (const request of sharedPrefixTrace(DEFAULT_TRACE)) {
		now += 1;
		blocks += request.length;
		const held: Residency[] = [];
		const absent: { keyText: string; layout: readonly string[] }[] = [];
		for (const keyText of request) {
			const residency = cache.get(keyText);
			if (residency === undefined) absent.push({ keyText, layout: LAYOUT });
			else {
				if (absent.length === 0) hits += 1;
				cache.claim(residency);
				held.push(residency);
			}
		}
		for (const outcome of cache.admit(absent, "deposit")) {
			if (outcome.kind !== "reserved") continue;
			cache.completeFill(outcome.residency);
			held.push(outcome.residency);
		}
		for (const residency of held.reverse()) cache.unclaim(residency);
		cache.settle();
	}
	return hits / blocks;
}

/** The ratio of a cache that never evicts. */
function ceiling(): number {
	const seen = new Set<string>();
	let hits = 0;
	let blocks = 0;
	for (const request of sharedPrefixTrace(DEFAULT_TRACE)) {
		for (const block of request) {
			blocks += 1;
			if (seen.has(block)) hits += 1;
			seen.add(block);
		}
	}
	return hits / blocks;
}

const figures: Figure[] = [];
const never = ceiling();
for (const slots of SIZES) {
	const lru = hitRatio(new LruPolicy(), slots);
	const fifo = hitRatio(new FifoPolicy(), slots);
	const frequency = hitRatio(
		new FrequencyPolicy({ expectedBlocks: slots }),
		slots,
	);
	const name = (policy: string): string =>
		`hit ratio, ${slots} slots, ${policy}`;
	const common = { unit: "blocks/block" };
	figures.push(
		{
			...common,
			name: name("fifo"),
			value: fifo,
			referenceName: "lru",
			referenceValue: lru,
		},
		{
			...common,
			name: name("lru"),
			value: lru,
			referenceName: "never evicting",
			referenceValue: never,
		},
		{
			...common,
			name: name("frequency"),
			value: frequency,
			referenceName: "better of lru and fifo",
			referenceValue: Math.max(lru, fifo),
			target: ">= 1.02",
		},
	);
}
report(
	`Placement policies, seed ${DEFAULT_TRACE.seed}, ${DEFAULT_TRACE.requests} requests`,
	figures,
);
