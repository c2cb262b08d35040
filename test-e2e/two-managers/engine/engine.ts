/**
 * An engine simulator: schedules requests in steps as vLLM does, keeps their KV blocks in a primary tier with a prefix cache,
 * and drives a tier through the same calls in the same order. The KV bytes of a block are computed from its full key, and
 * the output of a request from the bytes it finds in memory: wrong bytes anywhere show in an output.
 */
import { createHash } from "node:crypto";
import { keyText } from "kvcr-core";
import type {
	JobResult,
	LookupResult,
	ParentManager,
	ReqContext,
	VllmKvcrTier,
} from "kvcr-vllm-adapter";
import { pieceBytes } from "../../harness/blocks.js";
import { blockHashes, type HashBytes } from "./hashing.js";
import type { PrimaryTier } from "./primary-tier.js";
import type { EngineRequest, RequestReport } from "./requests.js";

/** Tokens per block. */
export const BLOCK_TOKENS = 16;
/** Failed loads of one block after which a request computes it. */
const MAX_LOADS = 2;
/** A request that waits longer never ends. */
const MAX_WAITING_STEPS = 20_000;

/** An event as the engine publishes it, its own and the tier's. */
export interface PublishedEvent {
	readonly keys: readonly Uint8Array[];
	readonly medium: string;
	readonly removed: boolean;
	readonly ownership: string | null;
}

interface ActiveRequest {
	readonly request: EngineRequest;
	readonly context: ReqContext;
	readonly keys: readonly Uint8Array[];
	/** Keys promoted for it. */
	readonly loaded: Set<string>;
	/** Failed loads by key. */
	readonly failures: Map<string, number>;
	failedLoads: number;
	waited: number;
	report: RequestReport | undefined;
	stepsLeft: number;
	readonly done: (report: RequestReport) => void;
	readonly failed: (error: unknown) => void;
}

type Job =
	| {
			readonly kind: "load";
			readonly keys: readonly Uint8Array[];
			readonly active: ActiveRequest;
	  }
	| { readonly kind: "store"; readonly keys: readonly Uint8Array[] };

export interface EngineSettings {
	readonly hashBytes: HashBytes;
	/** KV cache groups: each block has a key in each of them. */
	readonly groups: number;
	readonly blockBytes: number;
}

export class EngineSimulator {
	readonly #tier: VllmKvcrTier;
	readonly #primary: PrimaryTier;
	readonly #settings: EngineSettings;
	readonly #requests: ActiveRequest[] = [];
	readonly #jobs = new Map<number, Job>();
	/** Promotions of this step: one load job per request. */
	readonly #promotions = new Map<
		ActiveRequest,
		{ keys: Uint8Array[]; blockIds: number[] }
	>();
	readonly #events: PublishedEvent[] = [];
	#nextJob = 0;
	/** Results of jobs the engine does not know. */
	strayResults = 0;
	/** Store jobs made for peers so far. */
	servedJobs = 0;

	constructor(
		tier: VllmKvcrTier,
		primary: PrimaryTier,
		settings: EngineSettings,
	) {
		this.#tier = tier;
		this.#primary = primary;
		this.#settings = settings;
	}

	/** Everything published so far. */
	get events(): readonly PublishedEvent[] {
		return this.#events;
	}

	/** Requests and jobs that are not over. */
	get open(): { readonly requests: number; readonly jobs: number } {
		return { requests: this.#requests.length, jobs: this.#jobs.size };
	}

	/** Offload keys of a request's full blocks, group by group within each block. */
	keysOf(request: EngineRequest): Uint8Array[] {
		const { loraName, cacheSalt, twin = false, tokens } = request;
		const hashes = blockHashes(
			tokens,
			BLOCK_TOKENS,
			(block) => {
				const extra = [
					...(loraName === undefined ? [] : [loraName]),
					...(cacheSalt === undefined || block > 0 ? [] : [cacheSalt]),
				];
				return extra.length === 0 ? null : extra;
			},
			this.#settings.hashBytes,
		);
		return hashes.flatMap((hash) => {
			const blockHash = Uint8Array.from(hash);
			if (twin) blockHash[0] = (blockHash[0] ?? 0) ^ 0xff;
			return Array.from({ length: this.#settings.groups }, (_, groupIndex) =>
				this.#tier.adapter.encode({ blockHash, groupIndex }),
			);
		});
	}

	/** Adds a request: the tier hears of it at once. Resolves when it has finished. */
	run(request: EngineRequest): Promise<RequestReport> {
		const { id, kvTransferParams, kvHints, lifetimeSteps = 1 } = request;
		const context: ReqContext = {
			reqId: id,
			...(kvTransferParams !== undefined && { kvTransferParams }),
			...(kvHints !== undefined && { kvHints }),
		};
		this.#tier.onNewRequest(context);
		return new Promise((done, failed) => {
			this.#requests.push({
				request,
				context,
				keys: this.keysOf(request),
				loaded: new Set(),
				failures: new Map(),
				failedLoads: 0,
				waited: 0,
				report: undefined,
				stepsLeft: lifetimeSteps,
				done,
				failed,
			});
		});
	}

	/** One step of the scheduler. */
	step(): void {
		for (const result of this.#tier.getFinishedJobs()) this.#jobEnded(result);
		for (const active of [...this.#requests]) {
			try {
				if (active.report === undefined) this.#schedule(active);
				else this.#goOn(active);
			} catch (error) {
				this.#end(active);
				active.failed(error);
			}
		}
		this.#submitPromotions();
		this.#tier.serveExternalRequests(this.#parent);
		this.#publish();
	}

	/** Forgets the prefix cache of the primary tier; what the tier below has stays. */
	reset(): void {
		this.#primary.reset();
		this.#publish();
	}

	/** Decides about a waiting request: look-ups in order, promotions, and the forward pass once nothing is on its way. */
	#schedule(active: ActiveRequest): void {
		const { keys, context, loaded, failures } = active;
		if (++active.waited > MAX_WAITING_STEPS)
			throw new Error(`request ${context.reqId} waits for ever`);
		let hits = 0;
		let pending = false;
		for (const key of keys) {
			const here = this.#primary.lookup(key);
			if (here === "MISS") {
				const tries = failures.get(keyText(key)) ?? 0;
				const below =
					tries >= MAX_LOADS ? "MISS" : this.#tier.lookup(key, context);
				if (below === "MISS") break;
				if (below === "HIT") {
					if (!this.#promote(active, key)) break;
				}
				pending = true;
			} else if (here === "HIT_PENDING") pending = true;
			hits += 1;
		}
		if (pending) return;
		this.#forward(active, hits, loaded);
	}

	#promote(active: ActiveRequest, key: Uint8Array): boolean {
		const block = this.#primary.allocate(key);
		if (block === undefined) return false;
		const batch = this.#promotions.get(active) ?? { keys: [], blockIds: [] };
		batch.keys.push(key);
		batch.blockIds.push(block);
		this.#promotions.set(active, batch);
		active.loaded.add(keyText(key));
		return true;
	}

	#submitPromotions(): void {
		for (const [active, { keys, blockIds }] of this.#promotions) {
			const jobId = this.#nextJob++;
			this.#jobs.set(jobId, { kind: "load", keys, active });
			this.#tier.submitLoad({
				jobId,
				keys,
				blockIds,
				reqContext: active.context,
			});
		}
		this.#promotions.clear();
	}

	/** Computes what is missing, and the output from the bytes of all blocks. */
	#forward(
		active: ActiveRequest,
		hits: number,
		loaded: ReadonlySet<string>,
	): void {
		const { keys, request } = active;
		const present = keys.slice(0, hits);
		for (const key of present) this.#primary.retain(key);
		const computed: Uint8Array[] = [];
		for (const key of keys.slice(hits)) {
			if (this.#primary.lookup(key) !== "MISS") continue;
			const block = this.#primary.allocate(key);
			// The next step has more room, or the step after it.
			if (block === undefined) break;
			this.#primary
				.element(block)
				.set(pieceBytes(key, 0, this.#settings.blockBytes));
			this.#primary.complete(key, true);
			this.#primary.retain(key);
			computed.push(key);
		}
		const ready = keys.every((key) => this.#primary.lookup(key) === "HIT");
		if (ready) {
			const output = createHash("sha256");
			for (const key of keys) output.update(this.#primary.bytes(key));
			const tail = request.tokens.slice(
				request.tokens.length - (request.tokens.length % BLOCK_TOKENS),
			);
			output.update(JSON.stringify(tail));
			const fromBelow = present.filter((key) => loaded.has(keyText(key)));
			active.report = {
				output: output.digest("hex"),
				blocks: {
					cached: present.length - fromBelow.length,
					loaded: fromBelow.length,
					computed: keys.length - present.length,
				},
				failedLoads: active.failedLoads,
			};
		}
		for (const key of present) this.#primary.release(key);
		this.#cascade(computed, active.context);
	}

	/** Stores new blocks in the tier below. They stay in place until the job has ended. */
	#cascade(keys: readonly Uint8Array[], reqContext: ReqContext): void {
		if (keys.length === 0) return;
		const jobId = this.#nextJob++;
		const blockIds = keys.map((key) => {
			const block = this.#primary.retain(key);
			this.#primary.release(key);
			return block;
		});
		this.#jobs.set(jobId, { kind: "store", keys });
		this.#tier.submitStore({ jobId, keys, blockIds, reqContext });
	}

	#goOn(active: ActiveRequest): void {
		active.stepsLeft -= 1;
		if (active.stepsLeft > 0 || active.report === undefined) return;
		this.#end(active);
		active.done(active.report);
	}

	#end(active: ActiveRequest): void {
		this.#requests.splice(this.#requests.indexOf(active), 1);
		this.#tier.onRequestFinished(active.context);
	}

	#jobEnded({ jobId, success, successfulKeys = [] }: JobResult): void {
		const job = this.#jobs.get(jobId);
		if (job === undefined) {
			this.strayResults += 1;
			return;
		}
		this.#jobs.delete(jobId);
		if (job.kind === "store") {
			for (const key of job.keys) this.#primary.release(key);
			return;
		}
		const { active, keys } = job;
		const complete = new Set(successfulKeys.map(keyText));
		if (!success) active.failedLoads += 1;
		for (const key of keys) {
			const text = keyText(key);
			const arrived = success || complete.has(text);
			this.#primary.complete(key, arrived);
			if (arrived) continue;
			active.loaded.delete(text);
			active.failures.set(text, (active.failures.get(text) ?? 0) + 1);
		}
	}

	#publish(): void {
		for (const { key, removed } of this.#primary.takeEvents())
			this.#events.push({
				keys: [key],
				medium: "CPU",
				removed,
				ownership: null,
			});
		this.#events.push(...this.#tier.takeEvents());
	}

	/** What the tier may ask on behalf of peers: the primary tier alone. */
	readonly #parent: ParentManager = {
		onNewRequest: () => {},
		lookup: (key): LookupResult =>
			this.#primary.lookup(key) === "HIT" ? "HIT" : "MISS",
		createStoreJob: (keys) => {
			const jobId = this.#nextJob++;
			this.servedJobs += 1;
			const blockIds = keys.map((key) => this.#primary.retain(key));
			this.#jobs.set(jobId, { kind: "store", keys });
			return { jobId, keys, blockIds };
		},
		onRequestFinished: () => {},
	};
}
