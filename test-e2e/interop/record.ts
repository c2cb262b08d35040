/**
 * Records what a Python and a TypeScript peer say to each other, as fixtures of `recordings.test.ts`.
 *
 * Run: `node tools/run.mjs record-wire` (it overwrites `interop/recordings/`).
 *
 * The TypeScript side runs in this process, behind a channel and an agent that keep a copy of everything. Metadata blobs
 * name this machine's addresses, so their bytes are replaced, in the same length.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
	type ControlChannel,
	Kvcr,
	KvcrDriver,
	silentLogger,
	type TransferAgent,
} from "kvcr-core";
import { freePort } from "kvcr-core/testing";
import { NixlTransferAgent } from "kvcr-nixl";
import { ZmqControlChannel } from "kvcr-transport-zmq";
import { key, ListAdapter, pieceBytes } from "../harness/blocks.js";
import { hint } from "../harness/hint.js";
import { PythonPeer } from "./python-peer.js";
import type { RecordedMessage, Recording } from "./recording.js";

const POOLS = [
	{ name: "kv", slotBytes: 16_384, slotCount: 40 },
	{ name: "indexer", slotBytes: 1_024, slotCount: 40 },
];
const LAYOUT = ["kv", "kv", "indexer"];
const HUGE = 13_835_058_055_282_163_713n;
const HASHES = Array.from({ length: 10 }, (_, i) => HUGE + BigInt(i));
const KEYS = HASHES.map((hash) => key(hash));
/** What the source has, and in which steps a target asks for it. */
const PRESENT = KEYS.slice(0, 6);
const STEPS = {
	whole: KEYS.slice(0, 2),
	partial: [...KEYS.slice(2, 4), ...KEYS.slice(6, 7)],
	missing: KEYS.slice(7, 9),
	delivered: KEYS[4] as Uint8Array,
	late: KEYS[5] as Uint8Array,
	/** Only the source's successor has it. */
	afterwards: KEYS[9] as Uint8Array,
};
const FRAMEWORK_KEY = key(99n);
const SHORT = { operationTimeoutMs: 1_500, abandonTimeoutMs: 5_000 };
const PATIENT = { operationTimeoutMs: 9_000, abandonTimeoutMs: 20_000 };

/** One instance of this process. */
interface Own {
	readonly kvcr: Kvcr;
	readonly driver: KvcrDriver;
	readonly agent: TransferAgent;
	readonly framework: Awaited<ReturnType<TransferAgent["createRegion"]>>[];
	close(): Promise<void>;
}

/** Starts an instance whose traffic goes into `log`; `peer` names the other side. */
async function own(
	name: string,
	log: RecordedMessage[],
	peer: "python" | "typescript",
	settings: typeof SHORT,
	port = 0,
): Promise<Own> {
	const agent = recordingAgent(
		await NixlTransferAgent.create({ name }),
		log,
		peer,
	);
	const framework = [];
	for (const { name: label, slotBytes } of POOLS)
		framework.push(
			await agent.createRegion({
				label,
				elementBytes: slotBytes,
				elementCount: 8,
			}),
		);
	const adapter = new ListAdapter();
	const kvcr = await Kvcr.create({
		agent,
		channel: recordingChannel(new ZmqControlChannel({ port }), log, peer),
		adapter,
		pools: POOLS,
		frameworkRegions: framework,
		inventorySink: ({ keys, removed }) =>
			removed ? adapter.forget(keys) : adapter.learn(keys),
		logger: silentLogger,
		...settings,
	});
	const driver = new KvcrDriver(kvcr);
	return {
		kvcr,
		driver,
		agent,
		framework,
		async close() {
			driver.stop();
			await kvcr.close();
		},
	};
}

function deposit({ driver }: Own, keys: readonly Uint8Array[]) {
	return driver.deposit(
		keys.map((one) => ({
			key: one,
			pieces: LAYOUT.map((label, piece) => ({
				label,
				bytes: pieceBytes(
					one,
					piece,
					POOLS.find(({ name }) => name === label)?.slotBytes ?? 0,
				),
			})),
		})),
	);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** TypeScript asks, Python serves. */
async function pythonSource(): Promise<RecordedMessage[]> {
	const log: RecordedMessage[] = [];
	const port = await freePort();
	const options = {
		name: "python-source",
		port,
		pools: POOLS,
		frameworkElements: 40,
		frameworkBlocks: [{ key: FRAMEWORK_KEY, layout: LAYOUT }],
		...PATIENT,
	};
	let source = await PythonPeer.start(options);
	const target = await own("typescript-target", log, "python", SHORT);
	const { kvcr, driver, framework } = target;
	const blockOf = (one: Uint8Array) => ({ key: one, layout: LAYOUT });
	await source.call("deposit", PRESENT.map(blockOf));
	const advise = (requestId: string): void =>
		kvcr.submitHint(
			hint({ source: source.endpoint, hashes: [...HASHES, 99n] }),
			requestId,
		);
	advise("r");
	await pause(500);
	const { whole, partial, missing } = STEPS;
	for (const keys of [whole, partial, missing, [FRAMEWORK_KEY]])
		await driver.fetch(keys, { requestId: "r", expectedLayout: LAYOUT });
	const [, indexer] = framework;
	if (indexer !== undefined)
		await driver.deliver(
			[
				{
					key: STEPS.delivered,
					pieces: [{ label: "indexer", region: indexer, element: 2 }],
				},
			],
			{ requestId: "r" },
		);
	// What Python does not know: no answer to it is recorded because there is none.
	kvcr.submitHint(
		hint({ source: source.endpoint, hashes: [7n, HUGE], scope: "independent" }),
	);
	await pause(SHORT.operationTimeoutMs + 200);
	source.signal("SIGSTOP");
	await driver.fetch([STEPS.late], {
		requestId: "r",
		expectedLayout: LAYOUT,
	});
	source.signal("SIGCONT");
	await pause(700);
	await source.kill();
	source = await PythonPeer.start(options);
	await source.call("deposit", [blockOf(STEPS.afterwards)]);
	advise("again");
	await driver.fetch([STEPS.afterwards], {
		requestId: "again",
		expectedLayout: LAYOUT,
	});
	await target.close();
	await source.close();
	return log;
}

/** Python asks, TypeScript serves. */
async function typescriptSource(): Promise<RecordedMessage[]> {
	const log: RecordedMessage[] = [];
	const port = await freePort();
	let source = await own("typescript-source", log, "python", PATIENT, port);
	const target = await PythonPeer.start({
		name: "python-target",
		port: await freePort(),
		pools: POOLS,
		...SHORT,
	});
	await deposit(source, PRESENT);
	const advise = (requestId: string) =>
		target.call(
			"submitHint",
			hint({ source: source.kvcr.endpoint ?? "", hashes: HASHES }),
			requestId,
		);
	await advise("r");
	await pause(500);
	for (const keys of [STEPS.whole, STEPS.partial, STEPS.missing])
		await target.call("fetch", keys, {
			requestId: "r",
			expectedLayout: LAYOUT,
		});
	await target.call(
		"deliver",
		[{ key: STEPS.delivered, layout: ["indexer"], pieces: [2] }],
		"r",
	);
	// Out of reach for longer than the target waits, so that it probes.
	const late = target.call("fetch", [STEPS.late], {
		requestId: "r",
		expectedLayout: LAYOUT,
	});
	block(SHORT.operationTimeoutMs + 500);
	await late;
	await pause(500);
	await source.close();
	source = await own("typescript-source", log, "python", PATIENT, port);
	await deposit(source, [STEPS.afterwards]);
	for (const requestId of ["refused", "served"]) {
		await advise(requestId);
		await target.call("fetch", [STEPS.afterwards], {
			requestId,
			expectedLayout: LAYOUT,
		});
	}
	await target.close();
	await source.close();
	return log;
}

/** What only our own peers say: resolution, policies, moves. Recorded at the target. */
async function typescriptBoth(): Promise<RecordedMessage[]> {
	const log: RecordedMessage[] = [];
	const source = await own("typescript-source", [], "typescript", PATIENT);
	const target = await own("typescript-target", log, "typescript", PATIENT);
	await deposit(source, KEYS.slice(0, 3));
	const endpoint = source.kvcr.endpoint ?? "";
	target.kvcr.submitHint(
		hint({ source: endpoint, hashes: [HUGE, 7n], scope: "independent" }),
	);
	await pause(500);
	target.kvcr.submitHint(
		hint({
			source: endpoint,
			hashes: HASHES.slice(1, 3),
			mode: "move",
			allowFramework: false,
		}),
		"r",
	);
	await target.driver.fetch(KEYS.slice(1, 3), {
		requestId: "r",
		expectedLayout: LAYOUT,
	});
	await target.close();
	await source.close();
	return log;
}

function block(ms: number): void {
	Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** A channel that keeps a copy of what goes through it. */
function recordingChannel(
	channel: ControlChannel,
	log: RecordedMessage[],
	peer: RecordedMessage["from"],
): ControlChannel {
	const record = (from: RecordedMessage["from"], bytes: Uint8Array): void => {
		log.push({ from, via: "control", hex: withoutBlob(bytes) });
	};
	return wrapped(channel, {
		start: (receive) =>
			channel.start((message) => {
				record(peer, message);
				receive(message);
			}),
		send(endpoint, message) {
			record("typescript", message);
			return channel.send(endpoint, message);
		},
	});
}

/** An agent that keeps a copy of the notifications it sends and takes. */
function recordingAgent(
	agent: TransferAgent,
	log: RecordedMessage[],
	peer: RecordedMessage["from"],
): TransferAgent {
	const record = (from: RecordedMessage["from"], bytes: Uint8Array): void => {
		log.push({
			from,
			via: "notification",
			hex: Buffer.from(bytes).toString("hex"),
		});
	};
	return wrapped(agent, {
		write(request) {
			record("typescript", request.notification);
			return agent.write(request);
		},
		notify(remote, payload) {
			record("typescript", payload);
			return agent.notify(remote, payload);
		},
		takeNotifications() {
			const taken = agent.takeNotifications();
			for (const { payload } of taken) record(peer, payload);
			return taken;
		},
	});
}

/** `inner` with some methods replaced. */
function wrapped<T extends object>(inner: T, replaced: Partial<T>): T {
	return new Proxy(inner, {
		get(_target, name) {
			if (Object.hasOwn(replaced, name)) return Reflect.get(replaced, name);
			const value: unknown = Reflect.get(inner, name, inner);
			return typeof value === "function" ? value.bind(inner) : value;
		},
	});
}

/** A message in hexadecimal, the bytes of its metadata blob replaced by as many others. */
function withoutBlob(message: Uint8Array): string {
	const bytes = Buffer.from(message);
	const field = bytes.indexOf("target_agent_metadata");
	if (field >= 0) {
		const at = field + "target_agent_metadata".length;
		// bin 8, bin 16 or bin 32: the length takes 1, 2 or 4 bytes.
		const width = 1 << ((bytes[at] ?? 0) - 0xc4);
		const start = at + 1 + width;
		bytes.fill(0x5a, start, start + bytes.readUIntBE(at + 1, width));
	}
	return bytes.toString("hex");
}

function versions(): Record<string, string> {
	const script =
		"import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('kvcr', 'nixl-cu12', 'msgspec', 'pyzmq')}))";
	const output = execFileSync(process.env.KVCR_PYTHON_PEER ?? "", [
		"-c",
		script,
	]);
	return JSON.parse(String(output)) as Record<string, string>;
}

const folder = fileURLToPath(new URL("./recordings/", import.meta.url));
mkdirSync(folder, { recursive: true });
for (const [name, scenario] of Object.entries({
	"python-source": pythonSource,
	"typescript-source": typescriptSource,
	"typescript-both": typescriptBoth,
})) {
	const recording: Recording = {
		python: versions(),
		messages: await scenario(),
	};
	writeFileSync(
		`${folder}${name}.json`,
		`${JSON.stringify(recording, null, "\t")}\n`,
	);
	console.log(`${name}: ${recording.messages.length} messages`);
}
