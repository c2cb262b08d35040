/** The asking side of the benchmark, in this process. The other side is a process of its own. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { MemoryRegion, RemoteAgent } from "kvcr-core";
import { NixlTransferAgent } from "../src/index.js";
import {
	BLOCK,
	BULK_BLOCK,
	BULK_BLOCKS,
	type Figures,
	figures,
	type Introduction,
} from "./shared.js";

/** Milliseconds between two rounds of the section with pauses. */
const PAUSE_MS = 2;

/** Two agents in two processes, ready to measure. */
export class Bench {
	readonly #agent: NixlTransferAgent;
	readonly #child: ChildProcess;
	readonly #small: MemoryRegion;
	readonly #bulk: MemoryRegion;
	readonly #peer: RemoteAgent;
	#answered: (() => void) | undefined;

	private constructor(
		agent: NixlTransferAgent,
		child: ChildProcess,
		small: MemoryRegion,
		bulk: MemoryRegion,
		peer: RemoteAgent,
	) {
		this.#agent = agent;
		this.#child = child;
		this.#small = small;
		this.#bulk = bulk;
		this.#peer = peer;
		agent.attach(() => {
			agent.takeCompletions();
			if (agent.takeNotifications().length > 0) this.#answered?.();
		});
	}

	static async start(): Promise<Bench> {
		const child = fork(new URL("./echo.ts", import.meta.url));
		const [introduction] = (await once(child, "message")) as [Introduction];
		const agent = await NixlTransferAgent.create();
		const small = await agent.createRegion({
			label: "small",
			elementBytes: BLOCK,
			elementCount: 1,
		});
		const bulk = await agent.createRegion({
			label: "bulk",
			elementBytes: BULK_BLOCK,
			elementCount: BULK_BLOCKS,
		});
		for (let i = 0; i < BULK_BLOCKS; i += 1) bulk.element(i).fill(2);
		const peer = agent.addRemote(
			Buffer.from(introduction.metadata, "base64"),
			introduction.regions.map((r) => ({ ...r, addr: BigInt(r.addr) })),
		);
		child.send({
			metadata: Buffer.from(agent.localMetadata()).toString("base64"),
			regions: [small, bulk].map(({ descriptor }) => ({
				...descriptor,
				addr: String(descriptor.addr),
			})),
		} satisfies Introduction);
		agent.connect(peer);
		await sleep(200);
		return new Bench(agent, child, small, bulk, peer);
	}

	/** Rounds of one 64 KiB write each, one right after the other. */
	backToBack(count: number): Promise<Figures> {
		return this.#rounds(count, () => this.#small, 1, 0);
	}

	/** The same with pauses between the rounds. */
	paused(count: number): Promise<Figures> {
		return this.#rounds(count, () => this.#small, 1, PAUSE_MS);
	}

	/** Rounds of 64 x 1 MiB. Also how late the event loop's timers were meanwhile, 99th percentile, milliseconds. */
	async bulk(count: number): Promise<Figures & { loopDelayP99Ms: number }> {
		const delay = monitorEventLoopDelay({ resolution: 1 });
		delay.enable();
		const result = await this.#rounds(count, () => this.#bulk, BULK_BLOCKS, 0);
		delay.disable();
		// The histogram counts whole intervals, the resolution of one millisecond included.
		return { ...result, loopDelayP99Ms: delay.percentile(99) / 1e6 - 1 };
	}

	/** Share of one core that this process uses while the open agent has nothing to do. */
	async idle(ms: number): Promise<number> {
		await sleep(1_000);
		const before = process.cpuUsage();
		await sleep(ms);
		const used = process.cpuUsage(before);
		return (used.user + used.system) / 1000 / ms;
	}

	async stop(): Promise<void> {
		const gone = once(this.#child, "exit");
		this.#child.disconnect();
		await this.#agent.close();
		await gone;
	}

	async #rounds(
		count: number,
		region: () => MemoryRegion,
		elements: number,
		pauseMs: number,
	): Promise<Figures> {
		const pairs = Array.from({ length: elements }, (_, element) => ({
			region: region(),
			element,
			remoteRegion: elements === 1 ? 0 : 1,
			remoteElement: element,
		}));
		const notification = Buffer.from("ping");
		const warmup = Math.min(500, count);
		const micros: number[] = [];
		const expectation = this.#agent.expectTraffic();
		await new Promise<void>((resolve) => {
			let begin = 0n;
			let round = 0;
			const next = () => {
				begin = process.hrtime.bigint();
				this.#agent.write({ remote: this.#peer, pairs, notification });
			};
			this.#answered = () => {
				const took = Number(process.hrtime.bigint() - begin) / 1e3;
				round += 1;
				if (round > warmup) micros.push(took);
				if (micros.length === count) resolve();
				else if (pauseMs > 0) setTimeout(next, pauseMs);
				else next();
			};
			next();
		});
		this.#answered = undefined;
		expectation.end();
		return figures(micros);
	}
}
