/** Tiers of one process on a manual clock, each with a small engine: real parts above scripted ports. */
import {
	composeKvHint,
	keyText,
	type Logger,
	type MemoryRegion,
	stringifyKvHint,
} from "kvcr-core";
import {
	ManualClock,
	MemoryFabric,
	MemoryNetwork,
	type ScriptedAgentOptions,
	type ScriptedTransferAgent,
} from "kvcr-core/testing";
import {
	type JobId,
	type JobResult,
	type LookupResult,
	type OffloadKey,
	type ParentManager,
	type ReqContext,
	VllmKeyAdapter,
	VllmKvcrTier,
	type VllmKvcrTierOptions,
} from "../../src/index.js";

/** Bytes of a block. */
export const BLOCK = 64;

const keys = new VllmKeyAdapter({ events: false });

/** An offload key whose router hash is `hash`; `salt` makes full keys that collide. */
export function key(hash: bigint, { salt = 0, group = 0 } = {}): OffloadKey {
	const blockHash = Buffer.alloc(32, 0x5a);
	blockHash.writeUInt32BE(salt, 0);
	blockHash.writeBigUInt64BE(hash, 24);
	return keys.encode({
		blockHash: new Uint8Array(blockHash),
		groupIndex: group,
	});
}

/** Recognizable bytes for a block. */
export function content(block: OffloadKey): Uint8Array {
	const seed = block.reduce((sum, byte) => (sum * 31 + byte) >>> 0, 7);
	return Uint8Array.from({ length: BLOCK }, (_, i) => (seed + i * 17) & 0xff);
}

/** A request; every field of the context may be given. */
export function request(
	reqId: string,
	more: Partial<ReqContext> = {},
): ReqContext {
	return { reqId, ...more };
}

/** JSON text of a hint with one action. */
export function hint(
	source: string,
	hashes: readonly bigint[],
	more: {
		scope?: "request" | "independent";
		mode?: "copy" | "move";
		allowFramework?: boolean;
	} = {},
): string {
	return stringifyKvHint(composeKvHint({ source, hashes, ...more }));
}

/** The engine's side: blocks of the primary tier, and the manager it lends to the tier. */
export class TestEngine implements ParentManager {
	/** Blocks the primary tier has, by key. */
	readonly cached = new Map<string, number>();
	/** Store jobs made for peers that are not finished. */
	readonly storeJobs = new Map<JobId, readonly number[]>();
	/** What the tier asked for, in order. */
	readonly calls: string[] = [];
	/** Whether the manager is lent at the moment: anything asked for otherwise is a violation. */
	lent = false;
	/** Replaces the job of the next `createStoreJob`; null: it makes none. */
	nextJob:
		| { jobId: JobId; keys: OffloadKey[]; blockIds: number[] }
		| null
		| undefined;
	/** Thrown by the next call of this name. */
	failing: string | undefined;
	#nextJob = 1_000_000;

	readonly #primary: MemoryRegion;

	constructor(primary: MemoryRegion) {
		this.#primary = primary;
	}

	/** Puts a block into the primary tier. */
	cache(block: number, one: OffloadKey): void {
		this.#primary.element(block).set(content(one));
		this.cached.set(keyText(one), block);
	}

	bytes(block: number): Uint8Array {
		return Uint8Array.from(this.#primary.element(block));
	}

	onNewRequest({ reqId }: ReqContext): void {
		this.#called("onNewRequest", reqId);
	}

	lookup(one: OffloadKey): LookupResult {
		this.#called("lookup");
		return this.cached.has(keyText(one)) ? "HIT" : "MISS";
	}

	createStoreJob(asked: readonly OffloadKey[]) {
		this.#called("createStoreJob");
		const { nextJob } = this;
		this.nextJob = undefined;
		if (nextJob === null) return null;
		const job = nextJob ?? {
			jobId: this.#nextJob++,
			keys: [...asked],
			blockIds: asked.map((one) => this.cached.get(keyText(one)) ?? -1),
		};
		this.storeJobs.set(job.jobId, job.blockIds);
		return job;
	}

	onRequestFinished({ reqId }: ReqContext): void {
		this.#called("onRequestFinished", reqId);
	}

	#called(name: string, detail = ""): void {
		if (!this.lent) throw new Error(`${name}: the manager is not lent`);
		this.calls.push(detail === "" ? name : `${name} ${detail}`);
		if (this.failing !== name) return;
		this.failing = undefined;
		throw new Error(`${name} failed`);
	}
}

/** One engine and its tier. */
export interface Manager {
	readonly name: string;
	readonly tier: VllmKvcrTier;
	readonly engine: TestEngine;
	readonly agent: ScriptedTransferAgent;
	readonly endpoint: string;
	/** Results so far. */
	readonly results: JobResult[];
	/** Messages of warnings so far. */
	readonly warnings: string[];
	/** False: `settle` does not call this tier. */
	stepping: boolean;
	/** False: steps do not lend the engine's manager. */
	serving: boolean;
}

export interface ManagerOptions extends Partial<VllmKvcrTierOptions> {
	readonly agentOptions?: ScriptedAgentOptions;
	/** Blocks of the primary tier; default 16. */
	readonly blocks?: number;
	/** KV cache events; default true. */
	readonly events?: boolean;
}

/** Several managers that share a clock, a network and a fabric. */
export class Managers {
	readonly clock = new ManualClock();
	readonly network = new MemoryNetwork({ clock: this.clock });
	readonly fabric = new MemoryFabric({ clock: this.clock });
	readonly all: Manager[] = [];

	async start(name: string, options: ManagerOptions = {}): Promise<Manager> {
		const { agentOptions, blocks = 16, events = true, ...rest } = options;
		const agent = this.fabric.agent(`agent-${name}`, agentOptions);
		const primary = await agent.createRegion({
			label: "",
			elementBytes: BLOCK,
			elementCount: blocks,
		});
		const warnings: string[] = [];
		const logger: Logger = {
			debug: () => {},
			info: () => {},
			warn: (_fields, message) => void warnings.push(message),
			error: (_fields, message) => void warnings.push(message),
		};
		const tier = await VllmKvcrTier.create({
			agent,
			channel: this.network.channel(name),
			primary,
			managedBlocks: 16,
			kvEvents: { enableKvCacheEvents: events, selfDescribingKvEvents: events },
			exclusiveEndpoint: true,
			clock: this.clock,
			logger,
			...rest,
		});
		const manager: Manager = {
			name,
			tier,
			engine: new TestEngine(primary),
			agent,
			endpoint: this.network.endpoint(name),
			results: [],
			warnings,
			stepping: true,
			serving: true,
		};
		this.all.push(manager);
		return manager;
	}

	/** Steps every engine until nothing moves any more. */
	settle(): void {
		for (let round = 0, idle = 0; idle < 3; round += 1) {
			if (round > 500) throw new Error("the managers do not come to rest");
			const ran = this.clock.advance(0);
			const moved = this.all.filter((manager) => this.#step(manager)).length;
			idle = ran === 0 && moved === 0 ? idle + 1 : 0;
		}
	}

	/** Lets time pass in small steps, everything running. */
	run(ms: number, step = 10): void {
		const end = this.clock.now() + ms;
		this.settle();
		while (this.clock.now() < end) {
			this.clock.advance(Math.min(step, end - this.clock.now()));
			this.settle();
		}
	}

	/** Stores blocks with recognizable bytes through a store job. */
	store(manager: Manager, ...blocks: readonly OffloadKey[]): void {
		const jobId = nextJobId();
		for (const [block, one] of blocks.entries())
			manager.engine.cache(block, one);
		manager.tier.submitStore({
			jobId,
			keys: blocks,
			blockIds: blocks.map((_, block) => block),
			reqContext: request("store"),
		});
		this.settle();
		manager.engine.cached.clear();
	}

	/** Shuts every tier down. */
	async close(): Promise<void> {
		const closing = this.all.map(({ tier }) => tier.shutdown());
		const ended = Promise.allSettled(closing);
		await this.clock.advanceAsync(60_000);
		await ended;
	}

	#step({ tier, engine, results, stepping, serving }: Manager): boolean {
		if (!stepping) return false;
		const finished = tier.getFinishedJobs();
		for (const { jobId } of finished) engine.storeJobs.delete(jobId);
		results.push(...finished);
		const calls = engine.calls.length;
		if (serving) {
			engine.lent = true;
			tier.serveExternalRequests(engine);
			engine.lent = false;
		}
		return finished.length > 0 || engine.calls.length > calls;
	}
}

let jobs = 500_000;

/** A job ID that was never used. */
export function nextJobId(): JobId {
	return jobs++;
}
