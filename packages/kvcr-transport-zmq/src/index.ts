/**
 * The KVCR control channel over ZeroMQ PUSH/PULL.
 *
 * ```ts
 * const channel = new ZmqControlChannel({ host: "0.0.0.0", advertise: "tcp://worker-7.example" });
 * await channel.start((message) => handle(message));
 * channel.endpoint; // "tcp://worker-7.example:43127"
 * channel.send("tcp://worker-8.example:5555", bytes); // false: not accepted
 * await channel.close();
 * ```
 */
export {
	type CurveKeyPair,
	generateCurveKeys,
	type ZmqCurveOptions,
} from "./curve.js";
export type { Lookup } from "./names.js";
export type { ZmqControlChannelOptions } from "./options.js";
export { ZmqControlChannel } from "./zmq-channel.js";
