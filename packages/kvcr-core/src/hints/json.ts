/**
 * Reading JSON without losing integers. Router hashes exceed 2^53 as a rule, and `JSON.parse` rounds them silently.
 *
 * Libraries that keep long numbers hand every number over as text; a list of 100,000 hashes then takes several times
 * as long as an event loop should be held up. Here digits are summed up in place.
 */
import { KnownTexts } from "../ports/known-texts.js";

/** A value as read: integers are bigint, other numbers are number, objects have no prototype. */
export type JsonValue =
	| null
	| boolean
	| number
	| bigint
	| string
	| JsonValue[]
	| JsonObject;

/** An object as read. Keys such as `__proto__` are ordinary keys. */
export interface JsonObject {
	[key: string]: JsonValue;
}

/** The text is not JSON, or nested too deeply. */
export class JsonSyntaxError extends Error {
	/** Index of the byte at fault. */
	readonly offset: number;

	constructor(expected: string, offset: number) {
		super(`expected ${expected} at offset ${offset}`);
		this.name = "JsonSyntaxError";
		this.offset = offset;
	}
}

/** Deepest nesting of arrays and objects accepted. */
export const MAX_JSON_NESTING = 64;

/** Longest integer kept exactly, in digits: turning longer ones into a bigint takes quadratic time. */
const MAX_INTEGER_DIGITS = 64;

const NO_KEYS = new KnownTexts([]);

/**
 * Parses one JSON text given as UTF-8. An integer of more than 64 digits comes as number, which no caller takes for exact.
 * @param keys Keys that are likely in it. Default: none.
 * @throws JsonSyntaxError
 */
export function parseJson(text: Uint8Array, keys = NO_KEYS): JsonValue {
	return new Reader(text, keys).document();
}

const SPACE = 0x20;
const QUOTE = 0x22;
const MINUS = 0x2d;
const COMMA = 0x2c;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const UPPER_E = 0x45;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const LOWER_E = 0x65;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;

const HALF = 0x1_0000;
const TWO_32 = 0x1_0000_0000;
const words = new Uint32Array(2);
const wide = new BigUint64Array(words.buffer);

class Reader {
	readonly #bytes: Buffer;
	readonly #keys: KnownTexts;
	#at = 0;

	constructor(bytes: Uint8Array, keys: KnownTexts) {
		this.#keys = keys;
		this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	}

	document(): JsonValue {
		const value = this.#value(0);
		this.#skipSpace();
		if (this.#at < this.#bytes.length) this.#fail("the end of the text");
		return value;
	}

	#value(depth: number): JsonValue {
		this.#skipSpace();
		const code = this.#bytes[this.#at];
		switch (code) {
			case QUOTE:
				return this.#string();
			case OPEN_ARRAY:
				return this.#array(depth + 1);
			case OPEN_OBJECT:
				return this.#object(depth + 1);
			case 0x74:
				return this.#word("true", true);
			case 0x66:
				return this.#word("false", false);
			case 0x6e:
				return this.#word("null", null);
			default:
				return this.#number();
		}
	}

	#array(depth: number): JsonValue[] {
		this.#enter(depth);
		const values: JsonValue[] = [];
		if (this.#skip(CLOSE_ARRAY)) return values;
		do {
			this.#integers(values);
			values.push(this.#value(depth));
		} while (this.#skip(COMMA));
		if (!this.#skip(CLOSE_ARRAY)) this.#fail(`"," or "]"`);
		return values;
	}

	/** Takes plain integers as long as each is followed by a comma; most of a hint is read here. */
	#integers(values: JsonValue[]): void {
		const bytes = this.#bytes;
		for (;;) {
			this.#skipSpace();
			const end = plainInteger(bytes, this.#at);
			if (end < 0 || bytes[end] !== COMMA) return;
			values.push(wide[0] as bigint);
			this.#at = end + 1;
		}
	}

	#object(depth: number): JsonObject {
		this.#enter(depth);
		const object = Object.create(null) as JsonObject;
		if (this.#skip(CLOSE_OBJECT)) return object;
		do {
			this.#skipSpace();
			if (this.#bytes[this.#at] !== QUOTE) this.#fail("a quoted key");
			const key = this.#key();
			if (!this.#skip(COLON)) this.#fail(`":"`);
			object[key] = this.#value(depth);
		} while (this.#skip(COMMA));
		if (!this.#skip(CLOSE_OBJECT)) this.#fail(`"," or "}"`);
		return object;
	}

	#key(): string {
		const bytes = this.#bytes;
		const start = this.#at + 1;
		let end = start;
		while (end < bytes.length && bytes[end] !== QUOTE) end++;
		const known = this.#keys.find(bytes, start, end - start);
		if (known === undefined) return this.#string();
		this.#at = end + 1;
		return known;
	}

	#enter(depth: number): void {
		if (depth > MAX_JSON_NESTING)
			this.#fail(`at most ${MAX_JSON_NESTING} levels of nesting`);
		this.#at++;
	}

	#string(): string {
		const bytes = this.#bytes;
		let end = this.#at + 1;
		let plain = true;
		for (;;) {
			if (end >= bytes.length) this.#fail("a closing quote");
			const code = bytes[end] as number;
			if (code === QUOTE) break;
			// Escapes, and control characters, which are an error.
			if (code === BACKSLASH || code < SPACE) plain = false;
			end += code === BACKSLASH ? 2 : 1;
		}
		if (plain) {
			const text = bytes.toString("utf8", this.#at + 1, end);
			this.#at = end + 1;
			return text;
		}
		try {
			const text = JSON.parse(bytes.toString("utf8", this.#at, end + 1));
			this.#at = end + 1;
			return text as string;
		} catch {
			return this.#fail("a valid string");
		}
	}

	#number(): number | bigint {
		const end = plainInteger(this.#bytes, this.#at);
		if (end < 0) return this.#unusualNumber();
		this.#at = end;
		return wide[0] as bigint;
	}

	#unusualNumber(): number | bigint {
		let end = this.#at;
		while (isNumeric(this.#bytes[end])) end++;
		const token = this.#bytes.toString("latin1", this.#at, end);
		if (!NUMBER.test(token)) this.#fail("a JSON value");
		this.#at = end;
		return token.length <= MAX_INTEGER_DIGITS && INTEGER.test(token)
			? BigInt(token)
			: Number(token);
	}

	#word<T>(word: string, value: T): T {
		const end = this.#at + word.length;
		if (this.#bytes.toString("latin1", this.#at, end) !== word)
			this.#fail("a JSON value");
		this.#at = end;
		return value;
	}

	#skip(code: number): boolean {
		if (this.#bytes[this.#at] !== code) {
			this.#skipSpace();
			if (this.#bytes[this.#at] !== code) return false;
		}
		this.#at++;
		return true;
	}

	#skipSpace(): void {
		for (;;) {
			const code = this.#bytes[this.#at];
			if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09)
				return;
			this.#at++;
		}
	}

	#fail(expected: string): never {
		throw new JsonSyntaxError(expected, this.#at);
	}
}

/**
 * Reads an unsigned integer below 2^64 into `wide[0]` and returns where it ends; -1 when there is something else, or the
 * number goes on with a fraction or exponent. Digits come in groups of nine, which V8 keeps as small integers.
 */
function plainInteger(bytes: Buffer, start: number): number {
	let at = start;
	let code = bytes[at] as number;
	let group = 0;
	while (code >= ZERO && code <= NINE && at - start < 9) {
		group = group * 10 + (code - ZERO);
		code = bytes[++at] as number;
	}
	let low = group;
	let high = 0;
	while (code >= ZERO && code <= NINE) {
		if (at - start >= 20) return -1;
		const end = Math.min(at + 9, start + 20);
		let scale = 1;
		group = 0;
		while (code >= ZERO && code <= NINE && at < end) {
			group = group * 10 + (code - ZERO);
			scale *= 10;
			code = bytes[++at] as number;
		}
		// (high, low) * scale + group, in halves so that every product stays below 2^53.
		const upperHalf = Math.floor(low / HALF);
		const lower = (low - upperHalf * HALF) * scale + group;
		const lowerCarry = Math.floor(lower / HALF);
		const upper = upperHalf * scale + lowerCarry;
		const upperCarry = Math.floor(upper / HALF);
		high = high * scale + upperCarry;
		low = (upper - upperCarry * HALF) * HALF + (lower - lowerCarry * HALF);
	}
	if (
		at === start ||
		high >= TWO_32 ||
		code === DOT ||
		code === LOWER_E ||
		code === UPPER_E ||
		(bytes[start] === ZERO && at - start > 1)
	)
		return -1;
	words[0] = low;
	words[1] = high;
	return at;
}

/** Whether a byte can be part of a number. */
function isNumeric(code: number | undefined): boolean {
	return (
		code !== undefined &&
		((code >= ZERO && code <= NINE) ||
			code === MINUS ||
			code === 0x2b ||
			code === DOT ||
			code === LOWER_E ||
			code === UPPER_E)
	);
}
