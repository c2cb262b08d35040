/** What a source says to its targets besides the writes themselves. */
import { StaleRemoteError } from "../ports/errors.js";
import type { OpHandle, TransferAgent } from "../ports/index.js";
import type { MessageHeader } from "../protocol/index.js";
import { encodeWriteDone } from "../protocol/index.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import type { ControlLink } from "./control-link.js";
import type { Route, RouteTable } from "./routes.js";

/** Whom to tell about the end of an operation. */
export interface ReplyAddress {
	readonly route: Route;
	readonly opHandle: OpHandle;
	/** Control endpoint of the target. */
	readonly replyTo: string | undefined;
	/** Endpoint the target used for this instance. */
	readonly askedAs: string | undefined;
}

export class ServeReplies {
	readonly #agent: TransferAgent;
	readonly #link: ControlLink;
	readonly #routes: Pick<RouteTable, "drop">;
	readonly #telemetry: Telemetry;

	constructor(
		agent: TransferAgent,
		link: ControlLink,
		routes: Pick<RouteTable, "drop">,
		telemetry: Telemetry,
	) {
		this.#agent = agent;
		this.#link = link;
		this.#routes = routes;
		this.#telemetry = telemetry;
	}

	/** Acknowledges metadata that came with a message. */
	acknowledge(header: MessageHeader, opHandle?: OpHandle): void {
		if (header.senderControlEndpoint === undefined) return;
		this.#link.reply(
			header.senderControlEndpoint,
			{
				type: "target_metadata_ack",
				...(opHandle !== undefined && { opHandle }),
			},
			header.sourceControlEndpoint,
		);
	}

	/** Fails an operation that cannot be served as it was asked for. */
	fail(
		route: Route,
		header: MessageHeader,
		opHandle: OpHandle,
		reason: string,
	): void {
		this.#telemetry.count("kvcr_writes_refused_total", {
			side: "source",
			reason,
		});
		const { senderControlEndpoint, sourceControlEndpoint } = header;
		this.notify(
			{
				route,
				opHandle,
				replyTo: senderControlEndpoint,
				askedAs: sourceControlEndpoint,
			},
			{ success: false },
		);
	}

	/** Says that an operation never was and never will be submitted. */
	refuse(
		header: Partial<
			Pick<MessageHeader, "senderControlEndpoint" | "sourceControlEndpoint">
		>,
		opHandle: OpHandle,
		reason: string,
	): void {
		this.#telemetry.count("kvcr_writes_refused_total", {
			side: "source",
			reason,
		});
		if (header.senderControlEndpoint === undefined) return;
		this.#link.reply(
			header.senderControlEndpoint,
			{ type: "write_refused", opHandle },
			header.sourceControlEndpoint,
		);
	}

	/**
	 * Tells a target about an end that no write carries. A failure goes over the control channel when the agent has no way
	 * there.
	 */
	notify(
		address: ReplyAddress,
		done: {
			success: boolean;
			completedIndices?: readonly number[];
			terminal?: boolean;
		},
	): void {
		const { route, opHandle, replyTo, askedAs } = address;
		let sent = false;
		try {
			sent = this.#agent.notify(
				route.remote,
				encodeWriteDone({ opHandle, ...done }),
			);
		} catch (error) {
			// A stale route has no way home; the control channel may. The answer makes the target introduce itself again, and that
			// must not find the same dead handle.
			if (error instanceof StaleRemoteError) this.#routes.drop(route);
		}
		if (sent || done.success || done.terminal === false) return;
		if (replyTo === undefined) return;
		this.#link.reply(replyTo, { type: "write_refused", opHandle }, askedAs);
	}
}
