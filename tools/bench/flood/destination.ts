/** The honest peer of the flood bench: follows one hint after the other and takes the time. */
import { subscribe } from "node:diagnostics_channel";
import {
	composeKvHint,
	HINT_OUTCOME_CHANNEL,
	type HintOutcomeReport,
	Kvcr,
	KvcrDriver,
	silentLogger,
	stringifyKvHint,
} from "kvcr-core";
import { PortableTransferAgent } from "kvcr-core/portable";
import {
	adapter,
	BLOCK_BYTES,
	hashOf,
	makeChannel,
	type Place,
	TARGET_SLOTS,
} from "./shared.js";

export class Destination {
	/** What it is called in messages. */
	readonly identity: { readonly agent: string; readonly incarnation: string };
	readonly #kvcr: Kvcr;
	readonly #driver: KvcrDriver;
	readonly #source: string;
	#next = 0;
	#onOutcome: (report: HintOutcomeReport) => void = () => {};

	private constructor(kvcr: Kvcr, source: string, agent: string) {
		this.#kvcr = kvcr;
		this.identity = { agent, incarnation: kvcr.incarnation };
		this.#driver = new KvcrDriver(kvcr);
		this.#source = source;
		subscribe(HINT_OUTCOME_CHANNEL, (message) => {
			const report = message as HintOutcomeReport & { instance: string };
			if (report.instance === kvcr.incarnation) this.#onOutcome(report);
		});
	}

	static async start(
		place: Place,
		source: string,
		name = "destination",
	): Promise<Destination> {
		const agent = await PortableTransferAgent.create();
		const kvcr = await Kvcr.create({
			agent,
			channel: makeChannel(place, name),
			adapter,
			pools: [{ name: "kv", slotBytes: BLOCK_BYTES, slotCount: TARGET_SLOTS }],
			logger: silentLogger,
			operationTimeoutMs: 5_000,
			abandonTimeoutMs: 10_000,
		});
		return new Destination(kvcr, source, agent.name);
	}

	/** Where answers reach it. */
	get endpoint(): string {
		return this.#kvcr.endpoint ?? "";
	}

	/** Follows hints one after the other. */
	async place(count: number): Promise<{ ms: number[]; failed: number }> {
		const ms: number[] = [];
		let failed = 0;
		for (let round = 0; round < count; round += 1) {
			const hint = stringifyKvHint(
				composeKvHint({
					source: this.#source,
					hashes: [hashOf(this.#next++)],
					scope: "independent",
				}),
			);
			const startedAt = performance.now();
			const outcome = new Promise<HintOutcomeReport>((resolve) => {
				this.#onOutcome = resolve;
			});
			this.#kvcr.submitHint(hint);
			if ((await outcome).outcome !== "placed") failed += 1;
			ms.push(performance.now() - startedAt);
		}
		return { ms, failed };
	}

	async close(): Promise<void> {
		this.#driver.stop();
		await this.#kvcr.close();
	}
}
