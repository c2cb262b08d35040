/**
 * The KVCR control channel over NATS, for clusters that outgrow point-to-point sockets.
 *
 * @example
 * ```ts
 * import { NatsControlChannel, listenForHints, watchPeers } from "kvcr-transport-nats";
 *
 * const channel = new NatsControlChannel({
 * 	peer: "worker-1",
 * 	connect: { servers: ["nats-1:4222", "nats-2:4222"], tls: { caFile: "ca.pem" } },
 * });
 * await channel.start((message) => console.log(message.byteLength));
 * channel.send("nats://kvcr.worker-2", new Uint8Array([1, 2, 3]));
 *
 * const hints = await listenForHints(channel, { submit: (text) => kvcr.submitHint(text) });
 * const watch = await watchPeers(channel);
 * console.log(watch.peers());
 * ```
 *
 * What to allow on the server is in `docs/security.md`.
 */
export {
	credsAuthenticator,
	nkeyAuthenticator,
} from "@nats-io/transport-node";
export { NatsControlChannel, type NatsControlChannelStats } from "./channel.js";
export type { NatsConnectionOptions } from "./dial.js";
export { NatsConnectionError, NatsPermissionError } from "./errors.js";
export {
	type HintListener,
	type HintListenerStats,
	type ListenForHintsOptions,
	listenForHints,
} from "./hints.js";
export type {
	NatsLike,
	NatsLikeMessage,
	NatsLikeStatus,
	NatsLikeSubscription,
} from "./nats-like.js";
export type { NatsControlChannelOptions } from "./options.js";
export type { LostCounts } from "./outbox.js";
export {
	type PeerChange,
	type PeerPresence,
	type PeerWatch,
	type WatchPeersOptions,
	watchPeers,
} from "./presence-watch.js";
