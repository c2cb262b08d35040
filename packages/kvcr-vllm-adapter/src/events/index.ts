/**
 * Intake of vLLM's KV cache events: keeps a reverse hash map in step with what an engine holds. Needs the package
 * `zeromq`, which is an optional peer dependency; everything but {@link KvEventSubscriber} works without.
 *
 * @packageDocumentation
 */
export {
	type BlockEvent,
	type BlockPlace,
	type ClearedEvent,
	decodeEventBatch,
	IntegerHashesError,
	type KvEvent,
	type KvEventBatch,
	MalformedEventsError,
} from "./decode.js";
export { ConnectFailedError, ZeromqUnavailableError } from "./errors.js";
export type { DropReason, PublisherStats } from "./publisher-stream.js";
export type { ClearReason } from "./sequencer.js";
export {
	type KvEventPublisher,
	KvEventSubscriber,
	type KvEventSubscriberOptions,
	rankPublishers,
} from "./subscriber.js";
