/** How the parts of this package find the link behind a channel, without making it part of the channel's public face. */
import { type Clock, InvalidArgumentError, type Logger } from "kvcr-core";
import { Link } from "./link.js";
import { isNatsLike } from "./nats-like.js";

/** Links of the channels that are not closed. */
export const linkOf = new WeakMap<object, Link>();

/** The link of a channel, or a new one over a caller's connection. `own` says whether to close it after use. */
export async function linkFor(
	source: object,
	operation: string,
	clock: Clock,
	logger: Logger,
): Promise<{ readonly link: Link; readonly own: boolean }> {
	const shared = linkOf.get(source);
	if (shared !== undefined) {
		if (shared.state === "up" || shared.state === "down")
			return { link: shared, own: false };
		throw new InvalidArgumentError(
			operation,
			"source",
			`(channel in state ${shared.state})`,
			"a started channel or a connection",
		);
	}
	if (!isNatsLike(source)) {
		throw new InvalidArgumentError(
			operation,
			"source",
			source,
			"a started channel or a connection",
		);
	}
	const link = new Link(
		{ kind: "borrowed", connection: source },
		clock,
		logger,
		5_000,
	);
	await link.start(operation);
	return { link, own: true };
}
