/** Errors of this transport, beside those of `kvcr-core`. */
import { KvcrError, showValue, reasonOf as textOf } from "kvcr-core";

/** No usable connection to a NATS server: unreachable, refused the credentials, or did not answer in time. */
export class NatsConnectionError extends KvcrError {
	/** @param reason what went wrong, without the operation; `options.cause` is the client's error where there is one */
	constructor(operation: string, reason: string, options?: ErrorOptions) {
		super("ERR_KVCR_NATS_CONNECTION", `${operation}: ${reason}`, options);
	}
}

/** The server's permissions do not allow a subscription this object needs. See `docs/security.md` for the exact list. */
export class NatsPermissionError extends KvcrError {
	/** The subject that may not be read. */
	readonly subject: string;

	/** @param subject the subject that may not be read; `options.cause` is the server's refusal */
	constructor(operation: string, subject: string, options?: ErrorOptions) {
		super(
			"ERR_KVCR_NATS_PERMISSION",
			`${operation}: the server does not permit a subscription to ${showValue(subject)}`,
			options,
		);
		this.subject = subject;
	}
}

/** The text of anything thrown, for a log line or a cause. Never throws, whatever it is. */
export function reasonOf(error: unknown): string {
	return error === undefined ? "no reason was given" : textOf(error);
}
