/** Hint envelopes: what a router says, checked as a whole before any of it takes effect. */
import { isUtf8 } from "node:buffer";
import { InvalidHintError, showValue } from "../ports/errors.js";
import { KnownTexts } from "../ports/known-texts.js";
import { type RouterHash, UINT64_MAX } from "../ports/names.js";
import { FieldViolation, type TransferMode } from "../protocol/index.js";
import { HashTable } from "./hash-table.js";
import { JsonSyntaxError, parseJson } from "./json.js";

/** Versions and the action type understood here. */
export const HINT_PROTOCOL_VERSION = "0.1";
export const FETCH_ACTION_TYPE = "kv.fetch";
export const FETCH_ACTION_VERSION = "1.0";

/** Longest envelope, in bytes of UTF-8. */
export const MAX_HINT_BYTES = 16 * 1024 * 1024;
/** Most actions in one envelope. */
export const MAX_HINT_ACTIONS = 1_024;
/** Most block hashes in one envelope, duplicates included. */
export const MAX_HINT_HASHES = 262_144;
/** Longest source endpoint, message ID or action ID, in UTF-16 units. */
export const MAX_HINT_STRING = 1_024;

/** Whether an action waits for framework calls of its request, or starts placement by itself. */
export type HintScope = "request" | "independent";

/** One `kv.fetch` action. */
export interface FetchAction {
	/** As the router named it; for logs. */
	readonly actionId?: string | undefined;
	/** Control endpoint of the peer that has the blocks. Absent: local tiers only (request scope). */
	readonly source?: string | undefined;
	/** Each hash once, in order of first appearance. */
	readonly hashes: readonly RouterHash[];
	/** `"move"` lets the source drop its copy afterwards. */
	readonly mode: TransferMode;
	/** Whether it waits for calls of its request. */
	readonly scope: HintScope;
	/** Whether the source may serve a block from framework memory when its managed copy is gone. */
	readonly allowFramework: boolean;
	/** Advisory: the block need not be kept after use. */
	readonly noRetain: boolean;
}

/** A version that differs from the one understood; the envelope was read with the known schema all the same. */
export interface VersionMismatch {
	/** The field it is about. */
	readonly kind: "protocol_version" | "action_version";
	/** The version understood here. */
	readonly supported: string;
	/** The value in its place, as it was read. */
	readonly received: unknown;
}

/** A checked envelope. */
export interface HintEnvelope {
	/** As the router named it; for logs. */
	readonly messageId?: string | undefined;
	/** At least one. */
	readonly actions: readonly FetchAction[];
	/** Versions other than those understood, in order; empty as a rule. */
	readonly versionMismatches: readonly VersionMismatch[];
}

/** Names of the fields read here. */
const FIELDS = new KnownTexts([
	"protocol_version",
	"message_id",
	"actions",
	"action_type",
	"action_version",
	"action_id",
	"payload",
	"source_control_endpoint",
	"block_hashes",
	"scope",
	"mode",
	"allow_framework",
	"no_retain",
]);

const SCOPES: readonly HintScope[] = ["request", "independent"];
const MODES: readonly TransferMode[] = ["copy", "move"];

/** What the reader must know about how the envelope was submitted. */
export interface HintContext {
	/** The request it was submitted with. Without one every action is independent and needs a source. */
	readonly requestId?: string | undefined;
}

/** How an envelope is read. */
interface Reading extends HintContext {
	/** Whether it was text: its integers are bigint then, and a number is a fraction, or rounded. */
	readonly text: boolean;
	/** Hashes that may still come. */
	hashesLeft: number;
}

/**
 * Reads an envelope from JSON text, UTF-8 bytes, or an object. In text, integers of any size are exact; in an object,
 * hashes are bigint or safe numbers.
 * @param operation What an error says was called. Default: this function.
 * @throws InvalidHintError naming the field and the value. Nothing else is thrown.
 */
export function parseHintEnvelope(
	input: string | Uint8Array | object,
	context: HintContext = {},
	operation = "parseHintEnvelope",
): HintEnvelope {
	const text = typeof input === "string" || input instanceof Uint8Array;
	try {
		return readEnvelope(text ? parseText(input) : input, {
			requestId: context.requestId,
			text,
			hashesLeft: MAX_HINT_HASHES,
		});
	} catch (error) {
		// Objects may have getters or be proxies.
		const { field, value, expected, cause } =
			error instanceof FieldViolation
				? error
				: new FieldViolation("envelope", input, "readable", { cause: error });
		throw new InvalidHintError(
			operation,
			field,
			value,
			expected,
			cause === undefined ? undefined : { cause },
		);
	}
}

/** Whether an action starts placement at once, or waits as advice for calls of the request. */
export function startsPlacement(
	action: FetchAction,
	requestId: string | undefined,
): boolean {
	return requestId === undefined || action.scope === "independent";
}

function parseText(input: string | Uint8Array): unknown {
	const bytes = typeof input === "string" ? bytesOf(input) : input;
	if (bytes.byteLength > MAX_HINT_BYTES)
		throw new FieldViolation(
			"envelope",
			bytes,
			`at most ${MAX_HINT_BYTES} bytes`,
		);
	// What was a string is valid as it was written.
	if (typeof input !== "string" && !isUtf8(bytes))
		throw new FieldViolation("envelope", bytes, "JSON in UTF-8");
	try {
		return parseJson(bytes, FIELDS);
	} catch (error) {
		if (!(error instanceof JsonSyntaxError)) throw error;
		const context = bytes.subarray(error.offset, error.offset + 40);
		throw new FieldViolation(
			"envelope",
			Buffer.from(context).toString("utf8"),
			`JSON (${error.message})`,
			{ cause: error },
		);
	}
}

/** Room for the text at hand: most hints are short, and reading one is over before the next begins. */
const scratch = Buffer.allocUnsafeSlow(16 << 10);

/** Text as UTF-8, valid until the next call. */
function bytesOf(text: string): Uint8Array {
	// UTF-8 takes at most three bytes per UTF-16 unit.
	return text.length * 3 <= scratch.length
		? scratch.subarray(0, scratch.write(text))
		: Buffer.from(text);
}

function readEnvelope(value: unknown, reading: Reading): HintEnvelope {
	const envelope = readObject(value, "envelope");
	const versionMismatches: VersionMismatch[] = [];
	const protocol = own(envelope, "protocol_version");
	if (protocol !== HINT_PROTOCOL_VERSION)
		versionMismatches.push({
			kind: "protocol_version",
			supported: HINT_PROTOCOL_VERSION,
			received: protocol,
		});
	const messageId = readId(own(envelope, "message_id"), "message_id");
	const entries = own(envelope, "actions");
	if (!Array.isArray(entries) || entries.length > MAX_HINT_ACTIONS)
		throw new FieldViolation(
			"actions",
			entries,
			`an array of at most ${MAX_HINT_ACTIONS} actions`,
		);
	const actions: FetchAction[] = [];
	for (let i = 0; i < entries.length; i++) {
		const path = `actions[${i}]`;
		const entry = readObject(entries[i], path);
		const type = own(entry, "action_type");
		if (typeof type !== "string")
			throw new FieldViolation(`${path}.action_type`, type, "a string");
		if (type !== FETCH_ACTION_TYPE) continue;
		const version = own(entry, "action_version");
		if (version !== FETCH_ACTION_VERSION)
			versionMismatches.push({
				kind: "action_version",
				supported: FETCH_ACTION_VERSION,
				received: version,
			});
		actions.push(readFetch(entry, path, reading));
	}
	if (actions.length === 0)
		throw new FieldViolation(
			"actions",
			entries,
			`a list with at least one ${FETCH_ACTION_TYPE} action`,
		);
	return { messageId, actions, versionMismatches };
}

function readFetch(entry: object, path: string, reading: Reading): FetchAction {
	const actionId = readId(own(entry, "action_id"), `${path}.action_id`);
	const at = `${path}.payload`;
	const payload = readObject(own(entry, "payload"), at);
	const scope = readChoice(payload, at, "scope", SCOPES, "request");
	const source = own(payload, "source_control_endpoint") ?? undefined;
	if (source === undefined) {
		if (scope === "independent" || reading.requestId === undefined)
			throw new FieldViolation(
				`${at}.source_control_endpoint`,
				source,
				scope === "independent"
					? "present for scope independent"
					: "present in a hint without a request ID",
			);
	} else if (
		typeof source !== "string" ||
		source === "" ||
		source.length > MAX_HINT_STRING
	)
		throw new FieldViolation(
			`${at}.source_control_endpoint`,
			source,
			`a non-empty string of at most ${MAX_HINT_STRING} characters`,
		);
	return {
		actionId,
		source,
		mode: readChoice(payload, at, "mode", MODES, "copy"),
		scope,
		allowFramework: readFlag(payload, at, "allow_framework", true),
		noRetain: readFlag(payload, at, "no_retain", false),
		hashes: readHashes(
			own(payload, "block_hashes"),
			`${at}.block_hashes`,
			reading,
		),
	};
}

function readHashes(
	value: unknown,
	path: string,
	reading: Reading,
): RouterHash[] {
	if (!Array.isArray(value) || value.length === 0)
		throw new FieldViolation(path, value, "a non-empty array of hashes");
	reading.hashesLeft -= value.length;
	if (reading.hashesLeft < 0)
		throw new FieldViolation(
			path,
			value.length,
			`such that the envelope has at most ${MAX_HINT_HASHES} hashes`,
		);
	const seen = new HashTable(value.length);
	const hashes: RouterHash[] = [];
	for (let i = 0; i < value.length; i++) {
		const hash = hashOf(value[i], reading.text);
		if (hash === undefined)
			throw new FieldViolation(
				`${path}[${i}]`,
				value[i],
				reading.text
					? "an unsigned 64-bit integer"
					: "an unsigned 64-bit integer (bigint, or a safe number)",
			);
		if (seen.set(hash, 0)) hashes.push(hash);
	}
	return hashes;
}

function hashOf(value: unknown, text: boolean): RouterHash | undefined {
	if (typeof value === "bigint")
		return value >= 0n && value <= UINT64_MAX
			? (value as RouterHash)
			: undefined;
	return !text &&
		typeof value === "number" &&
		Number.isSafeInteger(value) &&
		value >= 0
		? (BigInt(value) as RouterHash)
		: undefined;
}

function readObject(value: unknown, path: string): object {
	if (typeof value !== "object" || value === null || Array.isArray(value))
		throw new FieldViolation(path, value, "an object");
	return value;
}

/** A field of the object itself: what its prototype has, or was made to have, does not count. */
function own(object: object, field: string): unknown {
	return Object.hasOwn(object, field)
		? (object as Record<string, unknown>)[field]
		: undefined;
}

function readId(value: unknown, path: string): string | undefined {
	if (value === undefined || value === null) return undefined;
	if (typeof value !== "string" || value.length > MAX_HINT_STRING)
		throw new FieldViolation(
			path,
			value,
			`a string of at most ${MAX_HINT_STRING} characters`,
		);
	return value;
}

function readChoice<T extends string>(
	object: object,
	path: string,
	field: string,
	choices: readonly T[],
	whenAbsent: T,
): T {
	const value = own(object, field);
	if (value === undefined) return whenAbsent;
	const choice = choices.find((entry) => entry === value);
	if (choice === undefined)
		throw new FieldViolation(
			`${path}.${field}`,
			value,
			choices.map(showValue).join(" or "),
		);
	return choice;
}

function readFlag(
	object: object,
	path: string,
	field: string,
	whenAbsent: boolean,
): boolean {
	const value = own(object, field);
	if (value === undefined) return whenAbsent;
	if (typeof value !== "boolean")
		throw new FieldViolation(`${path}.${field}`, value, "a boolean");
	return value;
}
