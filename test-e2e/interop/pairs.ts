/** Pairs of one Python and one TypeScript peer over real NIXL and ZeroMQ, and scenarios told once for both directions. */
import { existsSync } from "node:fs";
import { freePort } from "kvcr-core/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe } from "vitest";
import type { Commands, WorkerOptions } from "../harness/commands.js";
import { Worker } from "../harness/worker-handle.js";
import { PythonPeer, type PythonPeerOptions } from "./python-peer.js";

export type PeerKind = "python" | "typescript";

/** What both kinds of peer can be asked for. */
export type CommonCommands = Pick<
	Commands,
	| "deposit"
	| "fetch"
	| "deliver"
	| "submitHint"
	| "discardHint"
	| "query"
	| "release"
	| "poll"
>;

/** A peer, whichever language it is written in. */
export interface Peer {
	readonly endpoint: string;
	readonly pid: number;
	call<N extends keyof CommonCommands>(
		name: N,
		...args: CommonCommands[N]["args"]
	): Promise<CommonCommands[N]["result"]>;
	signal(name: NodeJS.Signals): void;
	/** Closes it and waits for the end of its process. Returns the exit code. */
	close(): Promise<number>;
	/** Ends the process without a word. */
	kill(): Promise<void>;
}

/** Options that mean the same to both; `agentName` is the name of the NIXL agent. */
export type PeerOptions = Omit<PythonPeerOptions, "name" | "port"> & {
	readonly agentName?: string;
	/** Port of the control channel; default: a free one. */
	readonly port?: number;
};

/** How a scenario gets its peers. One started in a test ends with it, one started before the first test ends after the last. */
export interface Pairs {
	peer(kind: PeerKind, options?: PeerOptions): Promise<Peer>;
	/** Two at once. */
	both(
		first: PeerKind,
		firstOptions: PeerOptions,
		second: PeerKind,
		secondOptions: PeerOptions,
	): Promise<[Peer, Peer]>;
	python(options?: PeerOptions): Promise<PythonPeer>;
	typescript(options?: PeerOptions): Promise<Worker>;
}

/** What the partner cannot be had for, if there is something. */
export function missingReason(): string | undefined {
	if (!existsSync(process.env.KVCR_PYTHON_PEER ?? ""))
		return "the Python KVCR is not here (the bootstrap says why)";
	if (!existsSync(process.env.KVCR_NIXL_LIBRARY ?? ""))
		return "NIXL's library is not here (the bootstrap says why)";
	return undefined;
}

/** Describes scenarios. Without a partner they are a visible skip, and a failure in CI. */
export function withPairs(
	title: string,
	scenarios: (pairs: Pairs) => void,
): void {
	const missing = missingReason();
	if (missing !== undefined && process.env.CI !== "true") {
		const never = (): Promise<never> => Promise.reject(new Error("skipped"));
		describe.skip(`${title}: ${missing}`, () =>
			scenarios({
				peer: never,
				both: never,
				python: never,
				typescript: never,
			}));
		return;
	}
	describe(title, () => {
		const lasting: Peer[] = [];
		const passing: Peer[] = [];
		let started = lasting;
		let count = 0;
		const end = async (peers: Peer[]): Promise<void> => {
			await Promise.all(peers.splice(0).map((peer) => peer.kill()));
		};
		beforeAll(() => {
			if (missing !== undefined) throw new Error(missing);
		});
		beforeEach(() => {
			started = passing;
		});
		afterEach(() => end(passing));
		afterAll(() => end(lasting));
		const python = async (options: PeerOptions = {}): Promise<PythonPeer> => {
			const { agentName, port, ...rest } = options;
			const peer = await PythonPeer.start({
				...rest,
				name: agentName ?? `python-${process.pid}-${count++}`,
				port: port ?? (await freePort()),
			});
			started.push(peer);
			return peer;
		};
		const typescript = async (options: PeerOptions = {}): Promise<Worker> => {
			const settings: WorkerOptions = {
				...options,
				agent: "nixl",
				channel: "zmq",
				name: "typescript",
			};
			const worker = await Worker.start(settings);
			started.push(worker);
			return worker;
		};
		const peer = (kind: PeerKind, options?: PeerOptions): Promise<Peer> =>
			kind === "python" ? python(options) : typescript(options);
		scenarios({
			python,
			typescript,
			peer,
			both: (first, firstOptions, second, secondOptions) =>
				Promise.all([peer(first, firstOptions), peer(second, secondOptions)]),
		});
	});
}

/** Describes scenarios for a Python source with a TypeScript target, and the other way round. */
export function overDirections(
	title: string,
	scenarios: (pairs: Pairs, source: PeerKind, target: PeerKind) => void,
): void {
	for (const [source, target] of [
		["python", "typescript"],
		["typescript", "python"],
	] as const)
		withPairs(`${title} [${source} source, ${target} target]`, (pairs) =>
			scenarios(pairs, source, target),
		);
}
