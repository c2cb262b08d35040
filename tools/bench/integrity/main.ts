/**
 * What `integrity: "verify"` costs: the algorithm alone, processor time per GB at the source and at the destination, and
 * hint to placed of 64 blocks of 1 MiB, each beside the same without it. Both kinds take turns in one run, over the portable
 * agent and ZeroMQ, source and destination in processes of their own.
 *
 * Run: `npm run bench -- integrity [--rounds N] [--json FILE]`
 */
import { type ChildProcess, fork } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
	composeKvHint,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	Kvcr,
	KvcrDriver,
	stringifyKvHint,
} from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { BlockHasher } from "../../../packages/kvcr-core/src/integrity/hasher.js";
import {
	type Figure,
	judge,
	percentile,
	printFigures,
	writeFigures,
} from "../lib/figures.js";
import {
	adapter,
	createAgent,
	hashOf,
	pools,
	SOURCE_BLOCKS,
	TARGET_SLOTS,
} from "../pull/shared.js";

const BLOCKS = 64;
const BLOCK_BYTES = 1 << 20;
/** Rounds of either kind that do not count. */
const WARM_UP = 2;

const { values } = parseArgs({
	options: {
		rounds: { type: "string", default: "12" },
		json: { type: "string" },
	},
});
const rounds = Number(values.rounds);

let onOutcome: (report: HintOutcomeReport) => void = () => {};
subscribe(HINT_OUTCOME_CHANNEL, (report) =>
	onOutcome(report as HintOutcomeReport),
);

/** A source and a destination of one kind, and what was measured of them. */
class Pair {
	readonly placedMs: number[] = [];
	readonly cpuMs: number[] = [];
	#next = 0;

	private constructor(
		readonly kind: "off" | "verify",
		readonly sourceCpuMs: number,
		private readonly source: ChildProcess,
		private readonly endpoint: string,
		private readonly kvcr: Kvcr,
		private readonly driver: KvcrDriver,
	) {}

	static async start(kind: "off" | "verify"): Promise<Pair> {
		const source = fork(fileURLToPath(new URL("peer.ts", import.meta.url)), [
			kind,
		]);
		source.once("exit", (code) => {
			if (code) throw new Error(`the source ended with code ${code}`);
		});
		const [{ endpoint, cpuMs }] = (await once(source, "message")) as [
			{ endpoint: string; cpuMs: number },
		];
		const kvcr = await Kvcr.create({
			agent: await createAgent("portable"),
			channel: new ZmqControlChannel({ port: 0 }),
			adapter,
			pools: pools({ small: 1, large: TARGET_SLOTS.large }),
			operationTimeoutMs: 10_000,
			abandonTimeoutMs: 20_000,
			integrity: kind,
		});
		const driver = new KvcrDriver(kvcr);
		return new Pair(kind, cpuMs, source, endpoint, kvcr, driver);
	}

	/** One hint for blocks that are not here. */
	async place(counts: boolean): Promise<void> {
		const hashes = Array.from({ length: BLOCKS }, (_, at) =>
			hashOf("large", (this.#next + at) % SOURCE_BLOCKS.large),
		);
		this.#next = (this.#next + BLOCKS) % SOURCE_BLOCKS.large;
		const text = stringifyKvHint(
			composeKvHint({ source: this.endpoint, hashes, scope: "independent" }),
		);
		const cpu = process.cpuUsage();
		const startedAt = performance.now();
		await new Promise<void>((resolve, reject) => {
			let open = hashes.length;
			onOutcome = ({ outcome }) => {
				if (outcome !== "placed")
					reject(new Error(`a block ended as ${outcome}`));
				open -= 1;
				if (open === 0) resolve();
			};
			this.kvcr.submitHint(text);
		});
		if (!counts) return;
		this.placedMs.push(performance.now() - startedAt);
		const { user, system } = process.cpuUsage(cpu);
		this.cpuMs.push((user + system) / 1000);
	}

	/** Blocks that were checked. */
	get verified(): number {
		const name = 'kvcr_integrity_checks_total{result="verified"}';
		return this.kvcr.stats().counters[name] ?? 0;
	}

	async end(): Promise<void> {
		this.driver.stop();
		await this.kvcr.close();
		this.source.removeAllListeners("exit");
		this.source.send({});
		await once(this.source, "exit");
	}
}

const [hashed, copied] = await alone();
// One after the other: what the sources use of the processor is a figure.
const off = await Pair.start("off");
const verify = await Pair.start("verify");
for (let round = -WARM_UP; round < rounds; round += 1)
	for (const pair of [off, verify]) await pair.place(round >= 0);
if (verify.verified !== (rounds + WARM_UP) * BLOCKS || off.verified !== 0)
	throw new Error(`${verify.verified} blocks were checked, not all of them`);

const sourceGb = (SOURCE_BLOCKS.large * BLOCK_BYTES) / 1e9;
const roundGb = (BLOCKS * BLOCK_BYTES) / 1e9;
const placed = percentile(verify.placedMs, 0.5);
const without = percentile(off.placedMs, 0.5);
const figures: Figure[] = [
	{
		name: "checksum of 1 MiB blocks, alone",
		value: hashed,
		unit: "GB/s",
		reference: { name: "copying them", value: copied },
	},
	{
		name: "source: processor time per GB deposited",
		value: verify.sourceCpuMs / sourceGb,
		unit: "ms",
		reference: { name: "without", value: off.sourceCpuMs / sourceGb },
	},
	{
		name: "destination: processor time per GB placed",
		value: percentile(verify.cpuMs, 0.5) / roundGb,
		unit: "ms",
		reference: {
			name: "without",
			value: percentile(off.cpuMs, 0.5) / roundGb,
		},
	},
	{
		name: "hint to placed, 64 x 1 MiB, p50",
		value: placed,
		unit: "ms",
		reference: { name: "without", value: without },
	},
	{
		name: "share of it that checking adds",
		value: (100 * (placed - without)) / placed,
		unit: "%",
	},
];
const judged = figures.map(judge);
printFigures(
	"End-to-end integrity, over the portable agent and ZeroMQ, two processes",
	judged,
);
if (values.json !== undefined) writeFigures(values.json, judged);
await off.end();
await verify.end();

/** GB/s of the algorithm and of a copy, medians over the same blocks in turn. */
async function alone(): Promise<[hashed: number, copied: number]> {
	const hasher = await BlockHasher.load();
	const blocks = Array.from({ length: 32 }, (_, at) =>
		new Uint8Array(BLOCK_BYTES).fill(at + 1),
	);
	const into = new Uint8Array(BLOCK_BYTES);
	const hashMs: number[] = [];
	const copyMs: number[] = [];
	for (let round = 0; round < 8; round += 1)
		for (const block of blocks) {
			const startedAt = performance.now();
			const hashing = hasher.hash([block]);
			while (!hashing.next().done);
			const hashedAt = performance.now();
			into.set(block);
			hashMs.push(hashedAt - startedAt);
			copyMs.push(performance.now() - hashedAt);
		}
	const rate = (samples: readonly number[]): number =>
		BLOCK_BYTES / percentile(samples, 0.5) / 1e6;
	return [rate(hashMs), rate(copyMs)];
}
