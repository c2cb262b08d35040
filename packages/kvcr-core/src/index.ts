/**
 * KVCR core: managed host memory for KV cache blocks, router hints, and peer-to-peer transfers. Opens no socket and loads no
 * native code by itself; a control channel and a transfer agent are passed in.
 *
 * @example
 * ```ts
 * import { Kvcr, KvcrDriver } from "kvcr-core";
 * import { PortableTransferAgent } from "kvcr-core/portable";
 * import { ZmqControlChannel } from "kvcr-transport-zmq";
 *
 * const kvcr = await Kvcr.create({
 * 	agent: await PortableTransferAgent.create(),
 * 	channel: new ZmqControlChannel({ port: 17771 }),
 * 	adapter: myKeyAdapter,
 * 	pools: [{ name: "kv", slotBytes: 65_536, slotCount: 1024 }],
 * });
 * const driver = new KvcrDriver(kvcr);
 * kvcr.submitHint(jsonFromRouter);
 * ```
 */
export {
	BuiltInPolicy,
	FifoPolicy,
	FrequencyPolicy,
	LruPolicy,
	type ManagedCacheStats,
	PolicyError,
	type PoolStats,
	poolOfLabel,
} from "./cache/index.js";
export { type AwaitOptions, KvcrDriver } from "./driver.js";
export {
	type ComposeFetchOptions,
	composeKvHint,
	stringifyKvHint,
} from "./hints/compose.js";
export {
	type FetchAction,
	type HintEnvelope,
	type HintScope,
	parseHintEnvelope,
} from "./hints/envelope.js";
export type { HintOutcome, HintOutcomeReport } from "./hints/outcomes.js";
export { Kvcr } from "./kvcr.js";
export * from "./options.js";
export type {
	DeliverDestination,
	DepositBlock,
	DepositPiece,
	KvcrStats,
	QueryResult,
	ReleaseResult,
} from "./owner/calls.js";
export type {
	EntryResult,
	EntryStatus,
	FailureReason,
	ManagedPiece,
	OperationKind,
	OperationResult,
} from "./owner/operations.js";
export * from "./ports/index.js";
export { ProgressFailedError } from "./progress/health.js";
export type { StateLockHold } from "./progress/state-lock.js";
export {
	HINT_OUTCOME_CHANNEL,
	RESILIENCE_CHANNEL,
	TRANSFER_CHANNEL,
	type TransferEvent,
} from "./telemetry/telemetry.js";
export {
	type ReportedElement,
	TransferError,
	type TransferReportListener,
} from "./transfer/reports.js";
