/**
 * Transfer agent over NIXL: RDMA writes between registered host memory, behind the `TransferAgent` port of kvcr-core.
 *
 * ```ts
 * import { NixlTransferAgent } from "kvcr-nixl";
 *
 * const agent = await NixlTransferAgent.create();
 * console.log(agent.info.transports); // [ 'rc', 'sm', 'tcp', 'self' ]
 * await agent.close();
 * ```
 *
 * @packageDocumentation
 */
export {
	NativeAddonError,
	NixlLibraryError,
	NixlNotFoundError,
	RegionMemoryError,
} from "./errors.js";
export { surveyTransports, type TransportSurvey } from "./info.js";
export { NixlTransferAgent } from "./nixl-agent.js";
export type {
	NixlAgentOptions,
	NixlMapSpec,
	NixlRegionSpec,
} from "./options.js";
export type { NixlRegion } from "./region.js";
export type { UcxSettings } from "./ucx-settings.js";
