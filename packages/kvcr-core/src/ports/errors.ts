/**
 * The error classes every layer shares. One class per kind of failure; each carries a stable `code`, and its message
 * names the operation, the argument and the offending value, so that an operator can act on a single log line.
 */

/** Longest rendering of an offending value inside an error message, in characters. */
const MAX_SHOWN = 120;

/** Renders any value for an error message: short, unambiguous about its type, and never throwing. */
export function showValue(value: unknown): string {
	let text: string;
	try {
		if (typeof value === "string") text = JSON.stringify(value);
		else if (typeof value === "bigint") text = `${value}n`;
		else if (value instanceof Uint8Array) {
			const head = Buffer.from(
				value.buffer,
				value.byteOffset,
				Math.min(value.byteLength, 16),
			).toString("hex");
			text = `bytes(${value.byteLength})${value.byteLength > 0 ? ` 0x${head}` : ""}`;
		} else if (typeof value === "function")
			text = `function ${value.name || "(anonymous)"}`;
		else if (typeof value === "object" && value !== null) {
			// A `toJSON` may answer with nothing at all.
			text =
				JSON.stringify(value, (_key, inner: unknown) =>
					typeof inner === "bigint" ? `${inner}n` : inner,
				) ?? tagOf(value);
		} else text = String(value);
	} catch {
		text = tagOf(value);
	}
	return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** A value that cannot be written out: not even its tag can be asked for when it is a hostile proxy. */
function tagOf(value: unknown): string {
	try {
		return Object.prototype.toString.call(value);
	} catch {
		return `an unreadable ${typeof value}`;
	}
}

/** The text of anything thrown, for a message: never empty, and never throwing. */
export function reasonOf(error: unknown): string {
	try {
		if (error instanceof Error)
			for (const text of [error.message, error.name])
				if (typeof text === "string" && text !== "") return text;
	} catch {
		// Not an error in more than name: shown like any other value.
	}
	return typeof error === "string" && error !== "" ? error : showValue(error);
}

/** Base of every error this project throws on purpose. `code` is stable across releases. */
export class KvcrError extends Error {
	/** Stable machine-readable kind, e.g. `"ERR_KVCR_INVALID_ARGUMENT"`. */
	readonly code: string;

	/** Takes a stable `code` and a message that names operation, argument and value. */
	constructor(code: string, message: string, options?: ErrorOptions) {
		super(message, options);
		this.name = new.target.name;
		this.code = code;
	}
}

/** An argument of a public call is unusable. Nothing was changed. */
export class InvalidArgumentError extends KvcrError {
	/** The call that refused, e.g. `"Kvcr.fetch"`. */
	readonly operation: string;
	/** Path of the argument inside the call, e.g. `"keys[3]"`. */
	readonly argument: string;
	/** The offending value itself. */
	readonly value: unknown;

	/** The message reads "operation: argument must be expected, got value". */
	constructor(
		operation: string,
		argument: string,
		value: unknown,
		expected: string,
	) {
		super(
			"ERR_KVCR_INVALID_ARGUMENT",
			`${operation}: ${argument} must be ${expected}, got ${showValue(value)}`,
		);
		this.operation = operation;
		this.argument = argument;
		this.value = value;
	}
}

/** A hint envelope is malformed; nothing of it took effect. */
export class InvalidHintError extends KvcrError {
	/** What was called, e.g. `"Kvcr.submitHint"`. */
	readonly operation: string;
	/** Path of the field inside the envelope, e.g. `"actions[0].payload.mode"`. */
	readonly field: string;
	/** The offending value itself. */
	readonly value: unknown;

	/** The message reads "operation: field must be expected, got value". */
	constructor(
		operation: string,
		field: string,
		value: unknown,
		expected: string,
		options?: ErrorOptions,
	) {
		super(
			"ERR_KVCR_INVALID_HINT",
			`${operation}: ${field} must be ${expected}, got ${showValue(value)}`,
			options,
		);
		this.operation = operation;
		this.field = field;
		this.value = value;
	}
}

/** Bytes from a peer do not form a valid message. Never fatal: the receiver drops and counts. */
export class MalformedMessageError extends KvcrError {
	/** Wire type, when it was readable. */
	readonly messageType: string | undefined;
	/** Path of the offending field, e.g. `"dst_descriptors[2][0].element_index"`. */
	readonly field: string;
	/** The offending value itself. */
	readonly value: unknown;

	/** The message reads "messageType: field must be expected, got value". */
	constructor(
		messageType: string | undefined,
		field: string,
		value: unknown,
		expected: string,
	) {
		super(
			"ERR_KVCR_MALFORMED_MESSAGE",
			`${messageType ?? "message"}: ${field} must be ${expected}, got ${showValue(value)}`,
		);
		this.messageType = messageType;
		this.field = field;
		this.value = value;
	}
}

/** The object was used after `close()` began. */
export class ClosedError extends KvcrError {
	/** `what` is the thing that is closed, e.g. `"the channel"`. */
	constructor(operation: string, what: string) {
		super("ERR_KVCR_CLOSED", `${operation}: ${what} is closed`);
	}
}

/** The same thing was started, attached or registered twice. */
export class AlreadyStartedError extends KvcrError {
	/** `what` is the thing that runs already, e.g. `"the channel"`. */
	constructor(operation: string, what: string) {
		super(
			"ERR_KVCR_ALREADY_STARTED",
			`${operation}: ${what} is already started`,
		);
	}
}

/** A `KeyAdapter` knows no block for a router hash. */
export class HashNotFoundError extends KvcrError {
	/** The router hash. */
	readonly hash: bigint;

	/** Takes the hash that was looked up. */
	constructor(hash: bigint) {
		super(
			"ERR_KVCR_HASH_NOT_FOUND",
			`decodeFromRouter: no block is known for router hash ${hash}`,
		);
		this.hash = hash;
	}
}

/** A `KeyAdapter` knows more than one full key for a router hash, so none may be chosen. */
export class AmbiguousHashError extends KvcrError {
	/** The router hash. */
	readonly hash: bigint;
	/** How many full keys share the hash. */
	readonly candidates: number;

	/** Takes the hash, and the number of full keys it stands for. */
	constructor(hash: bigint, candidates: number) {
		super(
			"ERR_KVCR_AMBIGUOUS_HASH",
			`decodeFromRouter: router hash ${hash} names ${candidates} different blocks`,
		);
		this.hash = hash;
		this.candidates = candidates;
	}
}

/** A memory element index lies outside its region. */
export class ElementOutOfRangeError extends KvcrError {
	/** `count` is the number of elements of the region called `label`. */
	constructor(operation: string, label: string, index: number, count: number) {
		super(
			"ERR_KVCR_ELEMENT_OUT_OF_RANGE",
			`${operation}: element ${showValue(index)} of region ${showValue(label)} is outside 0..${count - 1}`,
		);
	}
}

/** A memory region was used after its release. */
export class RegionReleasedError extends KvcrError {
	/** `label` is that of the region. */
	constructor(operation: string, label: string) {
		super(
			"ERR_KVCR_REGION_RELEASED",
			`${operation}: region ${showValue(label)} has been released`,
		);
	}
}

/** A memory region cannot be released while a transfer may still touch it. The region stays usable. */
export class RegionBusyError extends KvcrError {
	/** `label` is that of the region. */
	constructor(operation: string, label: string) {
		super(
			"ERR_KVCR_REGION_BUSY",
			`${operation}: region ${showValue(label)} is still used by a transfer in flight`,
		);
	}
}

/** Agent metadata received from a peer cannot be loaded. */
export class InvalidMetadataError extends KvcrError {
	/** `reason` says what is wrong with the metadata. */
	constructor(
		operation: string,
		metadata: unknown,
		reason: string,
		options?: ErrorOptions,
	) {
		super(
			"ERR_KVCR_INVALID_METADATA",
			`${operation}: metadata ${showValue(metadata)} cannot be loaded: ${reason}`,
			options,
		);
	}
}

/** A remote handle is of an earlier generation, or was removed: the peer must send its metadata again. */
export class StaleRemoteError extends KvcrError {
	/** Takes the name of the remote agent. */
	constructor(operation: string, agentName: string) {
		super(
			"ERR_KVCR_STALE_REMOTE",
			`${operation}: the handle of remote agent ${showValue(agentName)} is no longer valid`,
		);
	}
}

/** A remote agent cannot be replaced or removed while a transfer to it is in flight. */
export class RemoteBusyError extends KvcrError {
	/** Takes the name of the remote agent. */
	constructor(operation: string, agentName: string) {
		super(
			"ERR_KVCR_REMOTE_BUSY",
			`${operation}: transfers to remote agent ${showValue(agentName)} are still in flight`,
		);
	}
}

/** The transfer engine refused or failed an operation. */
export class TransferAgentError extends KvcrError {
	/** `reason` is what the engine says. */
	constructor(operation: string, reason: string, options?: ErrorOptions) {
		super("ERR_KVCR_TRANSFER_AGENT", `${operation}: ${reason}`, options);
	}
}

/** An RDMA-capable transport was required and there is none. */
export class RdmaUnavailableError extends KvcrError {
	/** `found` lists the transports there are. */
	constructor(operation: string, found: readonly string[]) {
		super(
			"ERR_KVCR_RDMA_UNAVAILABLE",
			`${operation}: requireRdma is set but no RDMA device was found (transports: ${found.join(", ") || "none"})`,
		);
	}
}

/** Closing could not prove that nothing native can still touch memory; the memory is kept alive on purpose. */
export class NotQuiescentError extends KvcrError {
	/** `what` says what could not be proven. */
	constructor(operation: string, what: string, options?: ErrorOptions) {
		super(
			"ERR_KVCR_NOT_QUIESCENT",
			`${operation}: ${what}; memory is kept until it is quiescent`,
			options,
		);
	}
}

/**
 * Start-up failed and native work could not be stopped: the caller must keep its own buffers mapped until the process
 * ends.
 */
export class StartupError extends KvcrError {
	/** `options.cause` has the error of the start-up and that of the attempt to stop. */
	constructor(message: string, options?: ErrorOptions) {
		super("ERR_KVCR_STARTUP", message, options);
	}
}

/** An endpoint string is unusable for its transport, or names nobody in particular (a wildcard address). */
export class InvalidEndpointError extends KvcrError {
	/** The endpoint that was given. */
	readonly endpoint: unknown;

	/** The message reads "operation: endpoint must be expected, got endpoint". */
	constructor(operation: string, endpoint: unknown, expected: string) {
		super(
			"ERR_KVCR_INVALID_ENDPOINT",
			`${operation}: endpoint must be ${expected}, got ${showValue(endpoint)}`,
		);
		this.endpoint = endpoint;
	}
}
