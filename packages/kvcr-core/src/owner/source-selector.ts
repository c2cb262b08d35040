/** Where a missing block can be had from, according to the advice of a request. Local knowledge only. */
import type { AdviceStore } from "../hints/index.js";
import { disregard } from "../ports/foreign.js";
import type { AdviceId, KeyAdapter, RouterHash } from "../ports/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import type { KeyRef } from "./key-ref.js";

/** How to get one block. */
export interface ChosenSource {
	readonly endpoint: string;
	readonly mode: "copy" | "move";
	readonly allowFramework: boolean;
}

export class SourceSelector {
	readonly #advice: AdviceStore;
	readonly #adapter: KeyAdapter | undefined;
	readonly #telemetry: Telemetry;

	constructor(
		advice: AdviceStore,
		adapter: KeyAdapter | undefined,
		telemetry: Telemetry,
	) {
		this.#advice = advice;
		this.#adapter = adapter;
		this.#telemetry = telemetry;
	}

	/**
	 * The source the advice names for a block; undefined when there is no advice, it failed, it does not name the block, or the
	 * source is known not to have it. Without an adapter advice covers every block.
	 */
	choose(
		adviceId: AdviceId | undefined,
		ref: KeyRef,
	): ChosenSource | undefined {
		const advice =
			adviceId === undefined ? undefined : this.#advice.get(adviceId);
		if (
			advice?.source === undefined ||
			advice.failed ||
			advice.missing.has(ref.text)
		)
			return undefined;
		if (this.#adapter === undefined)
			return { endpoint: advice.source, ...advice.blanket };
		let policy:
			| { readonly mode: "copy" | "move"; readonly allowFramework: boolean }
			| undefined;
		const failed = (error: unknown) =>
			this.#telemetry.warnOnce(
				"adapter-decode",
				{ error },
				"key adapter failed to decode a block key",
			);
		try {
			const hash: unknown = this.#adapter.decode(ref.key);
			if (typeof hash === "bigint")
				policy = advice.policyFor(hash as RouterHash);
			else disregard(hash, failed);
		} catch (error) {
			failed(error);
		}
		return (
			policy && {
				endpoint: advice.source,
				mode: policy.mode,
				allowFramework: policy.allowFramework,
			}
		);
	}
}
