/** What happened in a run: a fingerprint of all of it, and the last lines. */
import { hashText } from "./random.js";

/** Lines kept. */
const KEPT = 160;

/** A log whose fingerprint tells two runs apart. Lines hold nothing that differs between equal runs. */
export class EventLog {
	#first = 0x811c9dc5;
	#second = 0x12345678;
	#count = 0;
	readonly #lines: string[] = [];
	readonly #now: () => number;

	/** @param now Virtual time in milliseconds. */
	constructor(now: () => number) {
		this.#now = now;
	}

	/** Lines so far. */
	get count(): number {
		return this.#count;
	}

	/** Depends on every line and on their order. */
	get fingerprint(): string {
		return `${this.#first.toString(16)}-${this.#second.toString(16)}-${this.#count}`;
	}

	/** The last lines, oldest first. */
	get tail(): readonly string[] {
		const start = this.#count % KEPT;
		return this.#count <= KEPT
			? [...this.#lines]
			: [...this.#lines.slice(start), ...this.#lines.slice(0, start)];
	}

	add(line: string): void {
		const text = `${this.#now()} ${line}`;
		this.#first = hashText(text, this.#first);
		this.#second = hashText(text, this.#second);
		this.#lines[this.#count % KEPT] = text;
		this.#count += 1;
	}
}
