/** Error classes of the event intake's start. */
import { KvcrError, reasonOf } from "kvcr-core";

/** The optional peer dependency `zeromq` could not be loaded. `cause` says why. */
export class ZeromqUnavailableError extends KvcrError {
	/** @param operation the call that needs it */
	constructor(operation: string, cause: unknown) {
		super(
			"ERR_KVCR_ZEROMQ_UNAVAILABLE",
			`${operation}: the package zeromq is needed and could not be loaded; install it beside kvcr-vllm-adapter (npm install zeromq)`,
			{ cause },
		);
	}
}

/** An endpoint cannot be connected to: ZeroMQ refuses it, or its host is not known. `cause` says why. */
export class ConnectFailedError extends KvcrError {
	/** The endpoint that was given. */
	readonly endpoint: string;

	/** @param operation the call that connects */
	constructor(operation: string, endpoint: string, cause: unknown) {
		super(
			"ERR_KVCR_CONNECT_FAILED",
			`${operation}: cannot connect to ${endpoint}: ${reasonOf(cause)}`,
			{ cause },
		);
		this.endpoint = endpoint;
	}
}
