/** Who takes part, and what one turn of each measures. A turn starts its processes and ends them, so nobody runs beside another. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort } from "kvcr-core/testing";
import { nativeProgram } from "../../../packages/kvcr-nixl/scripts/build-program.mjs";
import { JsonProcess } from "./json-process.js";
import type { Mooncake } from "./mooncake.js";
import { LOAD, METADATA, POOLS, SHAPES, type Shape } from "./shapes.js";

/** What one turn found. Times in milliseconds. */
export interface Turn {
	/** By name of the shape. */
	readonly shapes: Record<string, { samples: number[]; cpuSeconds?: number }>;
	/** Share of one core that the busier of the two processes used while nothing was asked of it. */
	readonly idle?: number;
	readonly load?: readonly number[];
	readonly metadata?: {
		readonly queryMs: readonly number[];
		readonly depositMs: number;
	};
}

export interface Contender {
	readonly id: string;
	readonly title: string;
	/** What a time of it covers. */
	readonly covers: string;
	/** @param scale Share of the rounds to run. */
	turn(scale: number): Promise<Turn>;
}

const IDLE_MS = 10_000;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** How long a contender moves single blocks before anything counts, in milliseconds. */
const WARM_UP_MS = 4_000;

const roundsOf = (shape: Shape, scale: number): number =>
	Math.max(2, Math.round(shape.rounds * scale));

/** The C library with nothing around it. */
export function rawNixl(): Contender {
	const program = nativeProgram("floor/floor");
	const library = process.env.KVCR_NIXL_LIBRARY ?? "";
	return {
		id: "raw",
		title: "raw NIXL (C)",
		covers: "one write with notification and a notification back",
		async turn(scale) {
			const shapes: Turn["shapes"] = {};
			for (const shape of SHAPES) {
				const rounds = roundsOf(shape, scale);
				const { stdout } = await promisify(execFile)(program, [
					library,
					`${shape.blocks}x${shape.blockBytes}`,
					String(rounds),
				]);
				const found = JSON.parse(stdout) as {
					micros: number[];
					cpuSeconds: number;
				};
				shapes[shape.name] = {
					samples: found.micros.map((micros) => micros / 1000),
					cpuSeconds: found.cpuSeconds,
				};
			}
			return { shapes };
		},
	};
}

/** Our own peers, by fetch or by independent hints. */
export function own(
	kind: "nixl" | "portable",
	how: "fetch" | "hints",
	extras: { metadata?: boolean } = {},
): Contender {
	const start = (role: string): JsonProcess =>
		new JsonProcess(process.execPath, [
			...process.execArgv,
			fileURLToPath(new URL("own.ts", import.meta.url)),
			role,
			kind,
		]);
	return {
		id: `${kind}-${how}`,
		title: `ours, ${kind === "nixl" ? "NIXL" : "portable"}, ${how === "fetch" ? "fetch" : "hint to placed"}`,
		covers:
			how === "fetch"
				? "request over ZeroMQ, write, completion at the caller"
				: "hint, resolution at the source, then all that a fetch is",
		async turn(scale) {
			const pair = await pairTurn(start, how, scale, how === "hints");
			if (extras.metadata !== true) return pair;
			return { ...pair, metadata: await metadataOf(start("metadata")) };
		},
	};
}

/** The Python KVCR. */
export function pythonKvcr(python: string): Contender {
	const script = fileURLToPath(new URL("python/kvcr_peer.py", import.meta.url));
	let ports: number[] = [];
	const start = (role: string): JsonProcess => {
		const settings = {
			port: ports.pop(),
			pollSeconds: 0.0001,
			pools: POOLS,
			load: LOAD,
			metadata: METADATA,
		};
		return new JsonProcess(python, [script, role, JSON.stringify(settings)]);
	};
	return {
		id: "python",
		title: "Python KVCR, fetch",
		covers: "request over ZeroMQ, write, completion at the caller",
		async turn(scale) {
			ports = await Promise.all([freePort(), freePort(), freePort()]);
			const pair = await pairTurn(start, "fetch", scale, true);
			return { ...pair, metadata: await metadataOf(start("metadata")) };
		},
	};
}

/** Mooncake's transfer engine over TCP: the engine alone, without a request. */
export function mooncakeTcp(
	found: Exclude<Mooncake, { missing: string }>,
): Contender {
	const script = fileURLToPath(
		new URL("python/mooncake_peer.py", import.meta.url),
	);
	const start = (role: string): JsonProcess =>
		new JsonProcess(found.python, [script, role], found.env);
	return {
		id: "mooncake",
		title: "Mooncake engine, TCP",
		covers: "one batch of writes, no request and no notification",
		async turn(scale) {
			const target = start("target");
			const source = start("source");
			try {
				const place = await target.answer<object>();
				await source.answer();
				const write = (shape: Shape, rounds: number) =>
					source.ask<number[]>({ cmd: "fetch", target: place, shape, rounds });
				const shapes = await allShapes([source, target], write, scale);
				if (!(await target.ask<boolean>({ cmd: "check" })))
					throw new Error("wrong bytes at Mooncake's target");
				return { shapes, idle: await idleOf([source, target]) };
			} finally {
				await Promise.all([source.end(), target.end()]);
			}
		},
	};
}

async function pairTurn(
	start: (role: string) => JsonProcess,
	cmd: "fetch" | "hints",
	scale: number,
	withLoad: boolean,
): Promise<Turn> {
	const source = start("source");
	const target = start("target");
	try {
		const { endpoint } = await source.answer<{ endpoint: string }>();
		await target.answer();
		const move = (shape: Shape, rounds: number) =>
			target.ask<number[]>({ cmd, source: endpoint, shape, rounds });
		const shapes = await allShapes([source, target], move, scale);
		const load = withLoad
			? await target.ask<number[]>({ cmd: "load", source: endpoint })
			: undefined;
		return {
			shapes,
			idle: await idleOf([source, target]),
			...(load !== undefined && { load }),
		};
	} finally {
		await Promise.all([source.end(), target.end()]);
	}
}

async function allShapes(
	processes: readonly JsonProcess[],
	move: (shape: Shape, rounds: number) => Promise<number[]>,
	scale: number,
): Promise<Turn["shapes"]> {
	const cpu = (): number =>
		processes.reduce((sum, one) => sum + one.cpuSeconds(), 0);
	const shapes: Turn["shapes"] = {};
	// Workers run for days: every contender gets the same time to have its code compiled and its caches filled.
	const [first] = SHAPES;
	const warm = performance.now() + WARM_UP_MS * scale;
	while (first !== undefined && performance.now() < warm) await move(first, 50);
	for (const shape of SHAPES) {
		// The first ones of a shape pay for what is new about it, and do not count.
		await move(shape, shape.blocks > 16 ? 4 : 20);
		const before = cpu();
		const samples = await move(shape, roundsOf(shape, scale));
		shapes[shape.name] = { samples, cpuSeconds: cpu() - before };
	}
	return shapes;
}

async function idleOf(processes: readonly JsonProcess[]): Promise<number> {
	await sleep(1_000);
	const before = processes.map((one) => one.cpuSeconds());
	await sleep(IDLE_MS);
	const used = processes.map((one, at) => one.cpuSeconds() - (before[at] ?? 0));
	return Math.max(...used) / (IDLE_MS / 1000);
}

async function metadataOf(
	process: JsonProcess,
): Promise<NonNullable<Turn["metadata"]>> {
	try {
		return await process.answer();
	} finally {
		await process.end();
	}
}
