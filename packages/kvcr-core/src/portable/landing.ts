/** One incoming write at its target: checked before its first byte, and placed as bytes arrive. */
import { MAX_WRITE_PAIRS } from "./checks.js";
import { FrameError, RUN_BYTES } from "./frames.js";
import type { RegionMemory } from "./region-memory.js";
import { type Run, RunCursor } from "./runs.js";

/** Shortest contiguous stretch worth reading from the socket straight into the region, in bytes. */
const DIRECT_BYTES = 16 * 1024;

/** Finds a live region of this agent. */
export type RegionLookup = (addr: bigint) => RegionMemory | undefined;

/** A write that is arriving. */
export class Landing {
	readonly sequence: number;
	readonly notification: Uint8Array;
	readonly #cursor: RunCursor;
	#refusal: string | undefined;

	/**
	 * Decodes the body of a write frame. What cannot be written is refused, and its bytes are passed over.
	 * @throws FrameError when the body is not that of a write frame
	 */
	constructor(sequence: number, body: Buffer, lookup: RegionLookup) {
		this.sequence = sequence;
		const noteBytes = body.length >= 4 ? body.readUInt32LE(0) : 0;
		const runBytes = body.length - 4 - noteBytes;
		if (runBytes < RUN_BYTES || runBytes % RUN_BYTES !== 0)
			throw new FrameError("a write frame without whole runs");
		if (runBytes / RUN_BYTES > MAX_WRITE_PAIRS)
			throw new FrameError("a write frame with too many runs");
		this.notification = new Uint8Array(body.subarray(4 + runBytes));
		const runs: Run[] = [];
		for (let at = 4; at < 4 + runBytes; at += RUN_BYTES) {
			const region = lookup(body.readBigUInt64LE(at));
			const first = body.readUIntLE(at + 8, 6);
			const count = body.readUIntLE(at + 16, 6);
			if (region === undefined)
				this.#refuse("a region of the target was released");
			else if (count < 1 || first + count > region.elementCount)
				this.#refuse("an element lies outside its region");
			else runs.push({ region, first, count });
		}
		this.#cursor = new RunCursor(runs);
	}

	/** Why this write is not, or no longer, carried out. */
	get refusal(): string | undefined {
		return this.#refusal;
	}

	/** Bytes still to come; of no meaning once refused. */
	get left(): number {
		return this.#cursor.left;
	}

	/** Places the next bytes. */
	place(bytes: Uint8Array): void {
		let at = 0;
		while (at < bytes.length && this.#usable()) {
			const into = this.#cursor.view(bytes.length - at);
			into.set(bytes.subarray(at, at + into.length));
			this.#cursor.advance(into.length);
			at += into.length;
		}
	}

	/** Memory that the next `maxBytes` may be read into directly; `undefined` when they had better be copied. */
	direct(maxBytes: number): Uint8Array | undefined {
		if (maxBytes < DIRECT_BYTES || !this.#usable()) return undefined;
		const view = this.#cursor.view(maxBytes);
		return view.length < DIRECT_BYTES ? undefined : view;
	}

	/** The region that `direct` gave memory of. */
	get directRegion(): RegionMemory | undefined {
		return this.#cursor.region;
	}

	/** Notes that `bytes` were read into the memory that `direct` gave. */
	placedDirectly(bytes: number): void {
		if (this.#usable()) this.#cursor.advance(bytes);
	}

	/** Whether there is memory to place bytes in; refuses the write when there is not. */
	#usable(): boolean {
		if (this.#refusal !== undefined) return false;
		const { region } = this.#cursor;
		if (region === undefined) this.#refuse("more bytes than announced");
		else if (region.released)
			this.#refuse("a region of the target was released");
		return this.#refusal === undefined;
	}

	#refuse(reason: string): void {
		this.#refusal ??= reason;
	}
}
