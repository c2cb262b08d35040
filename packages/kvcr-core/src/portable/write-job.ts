/** One outgoing write: its frames, cut into parts as the connection has room. */
import type {
	RegionDescriptor,
	TransferCompletion,
	TransferId,
} from "../ports/transfer-agent.js";
import {
	FrameType,
	HEADER_BYTES,
	MAX_DATA_BYTES,
	putHeader,
	RUN_BYTES,
} from "./frames.js";
import type { RegionMemory } from "./region-memory.js";
import { type PairRuns, RunCursor } from "./runs.js";

/** Stretches shorter than this are gathered into one buffer instead of being sent one by one, in bytes. */
const GATHER_BELOW = 16 * 1024;

/** `queued`: no byte sent. `sending`: some. `sent`: all, or aborted; the target's answer decides. `over`: completed. */
export type WriteJobState = "queued" | "sending" | "sent" | "over";

/** A write on its way. */
export class WriteJob {
	readonly transfer: TransferId;
	state: WriteJobState = "queued";
	cancelRequested = false;
	readonly #opening: Buffer;
	readonly #regions: RegionMemory[];
	readonly #cursor: RunCursor;
	readonly #over: (completion: TransferCompletion) => void;

	/** @param over called once with the completion; source regions are no longer read then */
	constructor(
		transfer: TransferId,
		runs: PairRuns,
		notification: Uint8Array,
		remoteRegions: readonly RegionDescriptor[],
		over: (completion: TransferCompletion) => void,
	) {
		this.transfer = transfer;
		this.#over = over;
		const { local, remote } = runs;
		this.#cursor = new RunCursor(local);
		this.#regions = [...new Set(local.map(({ region }) => region))];
		for (const region of this.#regions) region.retain();
		this.#opening = opening(
			transfer,
			remote.map(({ index, first, count }) => ({
				addr: (remoteRegions[index] as RegionDescriptor).addr,
				first,
				count,
			})),
			notification,
		);
	}

	/** The next buffers to send, at most one data frame; `last` when none follow. */
	next(): { buffers: Uint8Array[]; bytes: number; last: boolean } {
		const begins = this.state === "queued";
		this.state = "sending";
		const bytes = Math.min(this.#cursor.left, MAX_DATA_BYTES);
		const last = bytes === this.#cursor.left;
		const prefix = begins ? this.#opening.length : 0;
		const head = Buffer.allocUnsafe(prefix + HEADER_BYTES);
		if (begins) head.set(this.#opening);
		putHeader(head, prefix, FrameType.data, bytes, 0, last ? 1 : 0);
		const buffers: Uint8Array[] = [head];
		this.#gather(bytes, buffers);
		if (last) this.state = "sent";
		return { buffers, bytes, last };
	}

	/** Ends the write; calls after the first do nothing. */
	end(outcome: TransferCompletion["outcome"], reason?: string): void {
		if (this.state === "over") return;
		this.state = "over";
		this.release();
		const { transfer } = this;
		this.#over(
			reason === undefined
				? { transfer, outcome }
				: { transfer, outcome, reason },
		);
	}

	/** Lets go of the source regions without a completion. */
	release(): void {
		this.state = "over";
		for (const region of this.#regions.splice(0)) region.unretain();
	}

	#gather(bytes: number, buffers: Uint8Array[]): void {
		let left = bytes;
		let staging: Buffer | undefined;
		let filled = 0;
		const flush = () => {
			if (staging === undefined || filled === 0) return;
			buffers.push(staging.subarray(0, filled));
			staging = staging.subarray(filled);
			filled = 0;
		};
		while (left > 0) {
			const view = this.#cursor.view(left);
			if (view.length >= GATHER_BELOW || view.length === bytes) {
				flush();
				buffers.push(view);
			} else {
				staging ??= Buffer.allocUnsafe(left);
				staging.set(view, filled);
				filled += view.length;
			}
			this.#cursor.advance(view.length);
			left -= view.length;
		}
		flush();
	}
}

/** The write frame. */
function opening(
	transfer: TransferId,
	runs: readonly { addr: bigint; first: number; count: number }[],
	notification: Uint8Array,
): Buffer {
	const length = 4 + RUN_BYTES * runs.length + notification.length;
	const bytes = Buffer.alloc(HEADER_BYTES + length);
	putHeader(bytes, 0, FrameType.write, length, transfer);
	let at = HEADER_BYTES;
	bytes.writeUInt32LE(notification.length, at);
	at += 4;
	for (const { addr, first, count } of runs) {
		bytes.writeBigUInt64LE(addr, at);
		bytes.writeUIntLE(first, at + 8, 6);
		bytes.writeUIntLE(count, at + 16, 6);
		at += RUN_BYTES;
	}
	bytes.set(notification, at);
	return bytes;
}
