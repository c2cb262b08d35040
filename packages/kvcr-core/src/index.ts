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
export * from "./ports/index.js";
