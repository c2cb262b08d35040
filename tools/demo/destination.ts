/**
 * The destination process: is at work for a request when the hint arrives, and has the blocks before anybody asks for them.
 * Prints what became of every hash, then delivers every placed block and compares all bytes.
 */
import { subscribe } from "node:diagnostics_channel";
import {
	consoleLogger,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	Kvcr,
	KvcrDriver,
	parseHintEnvelope,
} from "kvcr-core";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { type AgentKind, createAgent } from "./agent.js";
import { readHint } from "./arguments.js";
import {
	CARRIER_BLOCK,
	type DemoBlock,
	expectedOutcomes,
	POOLS,
	pieceBytes,
	SOURCE_BLOCKS,
	slotBytes,
} from "./blocks.js";
import { DemoKeyAdapter } from "./key-adapter.js";
import { table } from "./table.js";

const [kind = "portable", hintFile = "", source = ""] = process.argv.slice(2);
const problems: string[] = [];

const agent = await createAgent(kind as AgentKind);
// The engine's own memory: blocks are delivered here.
const frameworkRegions = await Promise.all(
	POOLS.map(({ name, slotBytes }) =>
		agent.createRegion({
			label: name,
			elementBytes: slotBytes,
			elementCount: 32,
		}),
	),
);
const adapter = new DemoKeyAdapter();
const kvcr = await Kvcr.create({
	agent,
	channel: new ZmqControlChannel({ port: 0 }),
	adapter,
	inventorySink: adapter.follow,
	pools: POOLS,
	frameworkRegions,
	logger: consoleLogger,
});
const driver = new KvcrDriver(kvcr);
const { transports } = agent.info;
console.log(
	`destination: agent ${agent.info.kind} (${transports.join(", ")}), control channel ${kvcr.endpoint}`,
);

// An unrelated request is being served; its metadata happens to carry the hint.
const carrier = "request-1";
await driver.deposit([
	{
		key: CARRIER_BLOCK.key,
		pieces: [
			{ label: "kv", bytes: pieceBytes(CARRIER_BLOCK.key, 0, slotBytes("kv")) },
		],
	},
]);
const hint = readHint(hintFile, source);
const { actions } = parseHintEnvelope(hint, { requestId: carrier });
// Every action is followed on its own: a hash that two of them name has two outcomes.
const expectedReports = actions
	.filter((action) => action.scope === "independent")
	.reduce((sum, { hashes }) => sum + hashes.length, 0);
const outcomes = await outcomesOf(
	() => kvcr.submitHint(hint, carrier),
	expectedReports,
);
console.log(
	table(
		["hash", "outcome", "bytes", "submit to placed"],
		outcomes.map(({ hash, outcome, bytes, elapsedMs }) => [
			String(hash),
			outcome,
			outcome === "placed" ? String(bytes) : "-",
			outcome === "placed" ? `${elapsedMs.toFixed(2)} ms` : "-",
		]),
	),
);
for (const { hash, outcome } of outcomes) {
	const expected = expectedOutcomes(hash);
	if (!expected.includes(outcome))
		problems.push(`hash ${hash}: ${outcome} instead of ${expected[0]}`);
}

// The carrier finishes first: what it carried does not depend on it.
await deliverAndCompare([CARRIER_BLOCK]);
kvcr.discardHint(carrier);
const arrived = new Set<bigint>(
	outcomes
		.filter(({ outcome }) => outcome === "placed")
		.map(({ hash }) => hash),
);
const placed = SOURCE_BLOCKS.filter(({ hash }) => arrived.has(hash));
const compared = await deliverAndCompare(placed);
console.log(
	`delivered ${placed.length} placed blocks and compared ${compared} bytes`,
);

const { cache, transfers, advice, operations } = kvcr.stats();
const leaks = {
	claims: cache?.claims ?? 0,
	pulls: Object.keys(transfers.pulls).length,
	advice,
	open: operations.open,
};
for (const [what, count] of Object.entries(leaks))
	if (count > 0) problems.push(`${count} ${what} left over`);
driver.stop();
await kvcr.close();
for (const problem of problems) console.error(`destination: ${problem}`);
console.log(
	problems.length === 0
		? `${compared > 0 ? "every byte is right" : "nothing was to be placed"}, nothing is left over`
		: "FAILED",
);
process.exitCode = problems.length === 0 ? 0 : 1;

/** Runs `submit` and waits until every hash has its outcome. */
function outcomesOf(
	submit: () => void,
	count: number,
): Promise<HintOutcomeReport[]> {
	return new Promise((resolve, reject) => {
		const seen: HintOutcomeReport[] = [];
		const giveUp = setTimeout(
			() => reject(new Error(`only ${seen.length} of ${count} outcomes came`)),
			20_000,
		);
		const settled = (): void => {
			if (seen.length < count) return;
			clearTimeout(giveUp);
			resolve(seen);
		};
		subscribe(HINT_OUTCOME_CHANNEL, (report) => {
			seen.push(report as HintOutcomeReport);
			settled();
		});
		submit();
		settled();
	});
}

/** Delivers blocks into the engine's memory, one region element per piece. Returns the number of bytes that were compared. */
async function deliverAndCompare(
	blocks: readonly DemoBlock[],
): Promise<number> {
	const next = new Map<string, number>();
	const destinations = blocks.map(({ key, layout }) => ({
		key,
		pieces: layout.map((label) => {
			const region = frameworkRegions.find((one) => one.label === label);
			if (region === undefined)
				throw new Error(`no framework region for label ${label}`);
			const element = next.get(label) ?? 0;
			next.set(label, element + 1);
			region.element(element).fill(0);
			return { label, region, element };
		}),
	}));
	const { entries } = await driver.deliver(destinations);
	let compared = 0;
	for (const [index, entry] of entries.entries()) {
		const { hash } = blocks[index] as DemoBlock;
		if (entry.status !== "SUCCESS") {
			problems.push(`block of hash ${hash} was not delivered: ${entry.reason}`);
			continue;
		}
		for (const [piece, { label, region, element }] of (
			destinations[index]?.pieces ?? []
		).entries()) {
			const expected = pieceBytes(entry.key, piece, slotBytes(label));
			compared += expected.byteLength;
			if (Buffer.compare(region.element(element), expected) !== 0)
				problems.push(`wrong bytes in piece ${piece} of hash ${hash}`);
		}
	}
	return compared;
}
