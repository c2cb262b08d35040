/** One write of a scripted agent, seen from the test. */

import type { RegionMemory } from "../portable/region-memory.js";
import type {
	RegionDescriptor,
	TransferCompletion,
	TransferId,
	WriteRequest,
} from "../ports/transfer-agent.js";

/** The receiving end of a write, as the fabric knows it at one moment. */
export interface WriteTarget {
	/** The live region behind a descriptor; `undefined` when it has been released. */
	memory(descriptor: RegionDescriptor): RegionMemory | undefined;
	/** Hands over the notification. */
	deliver(from: string, payload: Uint8Array): void;
}

/** What a write needs from its agent. */
export interface WriteOwner {
	/** The target now, or why it cannot be reached; `"stall"` while the link hangs. */
	target():
		| WriteTarget
		| {
				/** Why, for the completion's message. */
				readonly unreachable: string;
		  }
		| "stall";
	/** Called once, when the write is over. */
	ended(write: ScriptedWrite, completion: TransferCompletion): void;
}

/** How far a write has come. `stalled`: nothing but the test moves it any more, not even `close`. */
export type ScriptedWriteState = "in_flight" | "stalled" | "ended";

/**
 * A posted write. Bytes move when the test (or the agent's auto mode) says so, and then as they are at that moment: what
 * happens to a source that is overwritten too early shows.
 */
export class ScriptedWrite {
	/** As `write` returned it. */
	readonly transfer: TransferId;
	/** Name of the writing agent. */
	readonly from: string;
	/** Name of the agent written to. */
	readonly to: string;
	/** What was asked for. */
	readonly request: WriteRequest;
	/** True once `cancel` was asked for. */
	cancelRequested = false;
	readonly #regions: readonly RegionDescriptor[];
	readonly #owner: WriteOwner;
	#state: ScriptedWriteState = "in_flight";
	#copied = 0;

	/** Made by the agent. */
	constructor(
		transfer: TransferId,
		from: string,
		to: string,
		request: WriteRequest,
		regions: readonly RegionDescriptor[],
		owner: WriteOwner,
	) {
		this.transfer = transfer;
		this.from = from;
		this.to = to;
		this.request = request;
		this.#regions = regions;
		this.#owner = owner;
	}

	/** Where it is in its life. */
	get state(): ScriptedWriteState {
		return this.#state;
	}

	/** Pairs whose bytes have moved so far. */
	get copied(): number {
		return this.#copied;
	}

	/** Moves the bytes of the next pairs, without ending the write. Returns how many moved. */
	copy(count = 1): number {
		if (this.#state === "ended") return 0;
		const target = this.#owner.target();
		if (target === "stall" || "unreachable" in target) return 0;
		let moved = 0;
		while (moved < count && this.#copied < this.request.pairs.length) {
			if (!this.#copyOne(target)) break;
			moved += 1;
		}
		return moved;
	}

	/**
	 * Moves the remaining bytes, delivers the notification and ends the write as done; as failed when the target is gone or a
	 * region of it was released. False when it was over before, or when the link hangs.
	 */
	complete(): boolean {
		if (this.#state === "ended") return false;
		const target = this.#owner.target();
		if (target === "stall") {
			this.#state = "stalled";
			return false;
		}
		if ("unreachable" in target) return this.fail(target.unreachable);
		while (this.#copied < this.request.pairs.length)
			if (!this.#copyOne(target))
				return this.fail("a region of the target was released");
		target.deliver(this.from, this.request.notification.slice());
		return this.#end({ transfer: this.transfer, outcome: "done" });
	}

	/** Ends the write as failed; bytes that moved stay moved, and no notification arrives. */
	fail(reason = "failed by the test"): boolean {
		return this.#end({ transfer: this.transfer, outcome: "failed", reason });
	}

	/** Ends the write as cancelled. */
	confirmCancel(reason = "cancelled"): boolean {
		return this.#end({ transfer: this.transfer, outcome: "cancelled", reason });
	}

	/** Leaves the write in flight until the test ends it; closing its agent cannot prove quiescence meanwhile. */
	stall(): void {
		if (this.#state === "in_flight") this.#state = "stalled";
	}

	/** For the agent: the process behind the write is gone; it ends without a completion. */
	vanish(): void {
		if (this.#state === "ended") return;
		this.#state = "ended";
		this.#unretain();
	}

	/** For the agent: marks the source regions as being read. */
	retain(): void {
		for (const pair of this.request.pairs)
			(pair.region as RegionMemory).retain();
	}

	#copyOne(target: WriteTarget): boolean {
		const pair = this.request.pairs[
			this.#copied
		] as WriteRequest["pairs"][number];
		const memory = target.memory(
			this.#regions[pair.remoteRegion] as RegionDescriptor,
		);
		if (memory === undefined) return false;
		memory.element(pair.remoteElement).set(pair.region.element(pair.element));
		this.#copied += 1;
		return true;
	}

	#end(completion: TransferCompletion): boolean {
		if (this.#state === "ended") return false;
		this.#state = "ended";
		this.#unretain();
		this.#owner.ended(this, completion);
		return true;
	}

	#unretain(): void {
		for (const pair of this.request.pairs)
			(pair.region as RegionMemory).unretain();
	}
}
