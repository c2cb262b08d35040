/** A framework that answers pin requests when a test says so, and takes pins back when the test lets it. */
import {
	type BlockKey,
	type FrameworkPiece,
	type FrameworkPins,
	type GrantedPin,
	keyText,
	type MemoryRegion,
	type PinHandle,
	type PinRequestId,
} from "../../src/index.js";
import { content } from "./cluster.js";

export class ScriptedPins implements FrameworkPins {
	/** Answers requests at once; false: `answer` does. */
	auto = true;
	/** Whether the framework takes a pin back now. */
	accepts = true;
	/** Keys of every request so far. */
	readonly requests: (readonly string[])[] = [];
	readonly cancelled: PinRequestId[] = [];
	/** Handles given out and not taken back. */
	readonly held = new Set<PinHandle>();
	/** Attempts to release, refused ones included. */
	releases = 0;
	polls = 0;
	readonly #blocks = new Map<string, readonly FrameworkPiece[]>();
	readonly #open = new Map<PinRequestId, readonly BlockKey[]>();
	#answers: (readonly [PinRequestId, GrantedPin | undefined])[] = [];
	#wake: (() => void) | undefined;
	#used = 0;

	/** Keeps a block in framework memory, with recognizable bytes. */
	keep(region: MemoryRegion, key: BlockKey, label = region.label): void {
		const element = this.#used++;
		region.element(element).set(content(key, region.elementBytes));
		this.#blocks.set(keyText(key), [{ label, region, element }]);
	}

	/** Keeps a block in the pieces given. */
	keepAt(key: BlockKey, pieces: readonly FrameworkPiece[]): void {
		this.#blocks.set(keyText(key), pieces);
	}

	forget(key: BlockKey): void {
		this.#blocks.delete(keyText(key));
	}

	/** Requests that wait for `answer`. */
	get open(): number {
		return this.#open.size;
	}

	/** Answers requests, oldest first. */
	answer(count = this.#open.size): void {
		for (const [id, keys] of [...this.#open].slice(0, count)) {
			this.#open.delete(id);
			this.#grant(id, keys);
		}
		this.#wake?.();
	}

	attach(wake: () => void): void {
		this.#wake = wake;
	}

	request(keys: readonly BlockKey[]): PinRequestId {
		this.requests.push(keys.map(keyText));
		const id = BigInt(this.requests.length);
		if (this.auto) this.#grant(id, keys);
		else this.#open.set(id, keys);
		return id;
	}

	pollResults(): Iterable<readonly [PinRequestId, GrantedPin | undefined]> {
		this.polls += 1;
		const answers = this.#answers;
		this.#answers = [];
		return answers;
	}

	cancel(request: PinRequestId): void {
		this.cancelled.push(request);
	}

	release(handle: PinHandle): boolean {
		this.releases += 1;
		if (!this.accepts) return false;
		return this.held.delete(handle);
	}

	#grant(id: PinRequestId, keys: readonly BlockKey[]): void {
		const blocks = new Map(
			keys.map((key) => [key, this.#blocks.get(keyText(key))] as const),
		);
		if ([...blocks.values()].every((pieces) => pieces === undefined)) {
			this.#answers.push([id, undefined]);
			return;
		}
		const handle = `pin-${id}`;
		this.held.add(handle);
		this.#answers.push([id, { handle, blocks }]);
	}
}
