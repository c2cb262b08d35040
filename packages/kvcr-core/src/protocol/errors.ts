/** Malformed messages that still say whom to answer. */
import { MalformedMessageError } from "../ports/errors.js";
import type { Incarnation, OpHandle } from "../ports/names.js";

/**
 * Thrown by readers of fields and turned into an error for callers where it is known what was read: a
 * {@link MalformedMessageError} here, an `InvalidHintError` for hints. Never leaves this package.
 */
export class FieldViolation extends Error {
	readonly field: string;
	readonly value: unknown;
	readonly expected: string;

	constructor(
		field: string,
		value: unknown,
		expected: string,
		options?: ErrorOptions,
	) {
		super(field, options);
		this.field = field;
		this.value = value;
		this.expected = expected;
	}
}

/** What of a malformed `start_write` could be read besides its handle. */
export interface ReadableRoute {
	readonly targetAgent: string | undefined;
	readonly senderIncarnation: Incarnation | undefined;
	readonly senderControlEndpoint: string | undefined;
	readonly sourceControlEndpoint: string | undefined;
}

/**
 * A malformed `start_write` whose `op_handle` is readable: the source must answer that it failed, so that the target does
 * not wait for its deadline.
 */
export class MalformedStartWriteError
	extends MalformedMessageError
	implements ReadableRoute
{
	readonly opHandle: OpHandle;
	/** Wire field `target_agent`. */
	readonly targetAgent: string | undefined;
	/** Wire field `sender_incarnation`. */
	readonly senderIncarnation: Incarnation | undefined;
	/** Where a `write_refused` goes. */
	readonly senderControlEndpoint: string | undefined;
	/** The endpoint the target used for this instance, to be echoed in the answer. */
	readonly sourceControlEndpoint: string | undefined;

	constructor(
		violation: FieldViolation,
		opHandle: OpHandle,
		route: ReadableRoute,
	) {
		super("start_write", violation.field, violation.value, violation.expected);
		this.opHandle = opHandle;
		this.targetAgent = route.targetAgent;
		this.senderIncarnation = route.senderIncarnation;
		this.senderControlEndpoint = route.senderControlEndpoint;
		this.sourceControlEndpoint = route.sourceControlEndpoint;
	}
}

/**
 * A malformed `hashes_resolved` whose `resolution_id` and echoed endpoint are readable: the resolution they name fails
 * at once.
 */
export class MalformedHashesResolvedError extends MalformedMessageError {
	readonly resolutionId: bigint;
	/** The endpoint the asker used, as echoed in `sender_control_endpoint`. */
	readonly senderControlEndpoint: string;

	constructor(
		violation: FieldViolation,
		resolutionId: bigint,
		senderControlEndpoint: string,
	) {
		super(
			"hashes_resolved",
			violation.field,
			violation.value,
			violation.expected,
		);
		this.resolutionId = resolutionId;
		this.senderControlEndpoint = senderControlEndpoint;
	}
}
