/** Blocks of the primary tier that a failed transfer may still write to, as core reports them. */
import type { OpHandle, TransferError } from "kvcr-core";

/** See the comment at the top of this file. */
export class BlocksAtRisk {
	readonly #byTransfer = new Map<OpHandle, readonly number[]>();
	/** How many transfers may still write to each block. */
	readonly #counts = new Map<number, number>();
	#everything = false;

	/** Takes a report of core. */
	take({ state, side, opHandle, elements }: TransferError): void {
		// Memory that is only being read is kept in place by its pin.
		if (side !== "destination") return;
		if (state === "uncertain") {
			const blocks = elements
				.filter(({ owner }) => owner === "framework")
				.map(({ element }) => element);
			this.#byTransfer.set(opHandle, blocks);
			for (const block of blocks)
				this.#counts.set(block, (this.#counts.get(block) ?? 0) + 1);
			return;
		}
		for (const block of this.#byTransfer.get(opHandle) ?? []) {
			const left = (this.#counts.get(block) ?? 0) - 1;
			if (left > 0) this.#counts.set(block, left);
			else this.#counts.delete(block);
		}
		this.#byTransfer.delete(opHandle);
	}

	/** Nothing can be proven any more: every block that was in use stays at risk. */
	giveUp(): void {
		this.#everything = true;
	}

	/** Whether a block may still be written. */
	readonly has = (block: number): boolean =>
		this.#everything || this.#counts.has(block);
}
