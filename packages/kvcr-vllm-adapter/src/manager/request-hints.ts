/** Hints that arrive with a request: where they are, and what becomes of malformed ones. */
import { InvalidHintError, type Kvcr, type Logger } from "kvcr-core";
import { KV_HINT_KEY, type ReqContext } from "./contract.js";

/** Submits the hints of requests. A request goes on, whatever its hint looks like. */
export class RequestHints {
	readonly #kvcr: Kvcr;
	readonly #logger: Logger;
	#submitted = 0;
	#malformed = 0;

	/** @param logger Must not throw: a request does not fail over it. */
	constructor(kvcr: Kvcr, logger: Logger) {
		this.#kvcr = kvcr;
		this.#logger = logger;
	}

	/** Hints that took effect. */
	get submitted(): number {
		return this.#submitted;
	}

	/** Hints that were refused; nothing of them took effect. */
	get malformed(): number {
		return this.#malformed;
	}

	/**
	 * Submits the hint of a request, if it carries one.
	 * @throws what `Kvcr.submitHint` throws for any other reason than the hint.
	 */
	submit(context: ReqContext): void {
		const hint = hintOf(context);
		if (hint === undefined || hint === null) return;
		try {
			// Anything but text, bytes and objects is refused by the parser, which says so best.
			this.#kvcr.submitHint(
				hint as string | Uint8Array | object,
				context.reqId,
			);
			this.#submitted += 1;
		} catch (error) {
			if (!(error instanceof InvalidHintError)) throw error;
			this.#malformed += 1;
			const report = { error, reqId: context.reqId };
			const message = "a request carries a malformed hint; it goes on without";
			if (this.#malformed === 1) this.#logger.warn(report, message);
			else this.#logger.debug(report, message);
		}
	}
}

function hintOf({ kvHints, kvTransferParams }: ReqContext): unknown {
	if (kvHints !== undefined && kvHints !== null) return kvHints;
	if (typeof kvTransferParams !== "object" || kvTransferParams === null)
		return undefined;
	return Object.hasOwn(kvTransferParams, KV_HINT_KEY)
		? kvTransferParams[KV_HINT_KEY]
		: undefined;
}
