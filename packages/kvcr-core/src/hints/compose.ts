/** Writing hint envelopes: for routers, tests and tools. */
import { randomUUID } from "node:crypto";
import { InvalidArgumentError, InvalidHintError } from "../ports/errors.js";
import type { TransferMode } from "../protocol/index.js";
import {
	FETCH_ACTION_TYPE,
	FETCH_ACTION_VERSION,
	HINT_PROTOCOL_VERSION,
	type HintScope,
	parseHintEnvelope,
} from "./envelope.js";

/** One `kv.fetch` action to compose. */
export interface ComposeFetchOptions {
	/** Control endpoint of the peer that has the blocks; may be absent in request scope only. */
	readonly source?: string;
	/** Router hashes: bigint, or safe numbers. At least one. */
	readonly hashes: Iterable<bigint | number>;
	/** Default `"copy"`. */
	readonly mode?: TransferMode;
	/** Default `"request"`. */
	readonly scope?: HintScope;
	/** Default true. */
	readonly allowFramework?: boolean;
	/** Default: left out. */
	readonly noRetain?: boolean;
	/** Default: a random UUID. */
	readonly actionId?: string;
}

/** One envelope to compose: a single action, or several. */
export type ComposeHintOptions =
	| (ComposeFetchOptions & {
			/** Default: a random UUID. */
			readonly messageId?: string;
	  })
	| {
			/** The actions in order; at least one. */
			readonly actions: readonly ComposeFetchOptions[];
			/** Default: a random UUID. */
			readonly messageId?: string;
	  };

/** An envelope object as `submitHint` takes it; hashes are bigint. */
export interface KvHintEnvelope {
	/** Version of the envelope. */
	readonly protocol_version: string;
	/** Name of the envelope in logs. */
	readonly message_id: string;
	/** What is advised; at least one. */
	readonly actions: readonly {
		/** Name of the action in logs and outcomes. */
		readonly action_id: string;
		/** What kind of action it is: `"kv.fetch"`. */
		readonly action_type: string;
		/** Version of the payload. */
		readonly action_version: string;
		/** Fields of the action; see `docs/wire.md`. */
		readonly payload: Readonly<Record<string, unknown>>;
	}[];
}

/**
 * Builds an envelope and checks it the way a receiver would. Hashes are bigint in it: turn it into text with
 * {@link stringifyKvHint}, not with `JSON.stringify`.
 *
 * ```ts
 * const hint = composeKvHint({ source: "tcp://10.0.0.7:17771", hashes: [13835058055282163712n, 42], scope: "independent" });
 * const text = stringifyKvHint(hint);
 * ```
 * @throws InvalidHintError naming the field and the value; InvalidArgumentError for options that are no object.
 */
export function composeKvHint(options: ComposeHintOptions): KvHintEnvelope {
	if (typeof options !== "object" || options === null)
		throw new InvalidArgumentError(
			"composeKvHint",
			"options",
			options,
			"an object",
		);
	const fetches = "actions" in options ? options.actions : [options];
	if (!Array.isArray(fetches))
		throw new InvalidHintError(
			"composeKvHint",
			"actions",
			fetches,
			"an array of actions",
		);
	const envelope: KvHintEnvelope = {
		protocol_version: HINT_PROTOCOL_VERSION,
		message_id: options.messageId ?? randomUUID(),
		actions: (fetches as readonly ComposeFetchOptions[]).map((fetch, index) => {
			const payload = payloadOf(fetch, `actions[${index}]`);
			return {
				action_id: fetch.actionId ?? randomUUID(),
				action_type: FETCH_ACTION_TYPE,
				action_version: FETCH_ACTION_VERSION,
				payload,
			};
		}),
	};
	// Whether a request ID will come along is not known here: only an independent action surely needs a source.
	parseHintEnvelope(envelope, { requestId: "" }, "composeKvHint");
	return envelope;
}

/** JSON text of an envelope, or of any JSON value, with bigints written as exact integers. */
export function stringifyKvHint(envelope: object): string {
	return stringify(envelope) ?? "null";
}

function payloadOf(
	fetch: ComposeFetchOptions,
	path: string,
): Record<string, unknown> {
	if (typeof fetch !== "object" || fetch === null)
		throw new InvalidHintError("composeKvHint", path, fetch, "an object");
	const { hashes } = fetch as { readonly hashes?: unknown };
	if (
		typeof hashes !== "object" ||
		hashes === null ||
		!(Symbol.iterator in hashes)
	)
		throw new InvalidHintError(
			"composeKvHint",
			`${path}.payload.block_hashes`,
			hashes,
			"an iterable of hashes",
		);
	const payload: Record<string, unknown> = {};
	if (fetch.source !== undefined)
		payload.source_control_endpoint = fetch.source;
	// Unsafe numbers stay what they are, for the check to refuse.
	payload.block_hashes = Array.from(fetch.hashes, (hash) =>
		typeof hash === "number" && Number.isSafeInteger(hash)
			? BigInt(hash)
			: hash,
	);
	payload.mode = fetch.mode ?? "copy";
	payload.scope = fetch.scope ?? "request";
	payload.allow_framework = fetch.allowFramework ?? true;
	if (fetch.noRetain !== undefined) payload.no_retain = fetch.noRetain;
	return payload;
}

function stringify(value: unknown): string | undefined {
	if (typeof value === "bigint") return value.toString();
	if (typeof value !== "object" || value === null) return JSON.stringify(value);
	if (Array.isArray(value))
		return `[${value.map((entry) => stringify(entry) ?? "null").join(",")}]`;
	const fields: string[] = [];
	for (const [key, entry] of Object.entries(value)) {
		const text = stringify(entry);
		if (text !== undefined) fields.push(`${JSON.stringify(key)}:${text}`);
	}
	return `{${fields.join(",")}}`;
}
