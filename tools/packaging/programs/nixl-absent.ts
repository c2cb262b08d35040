/** Without NIXL's library the addon still loads, and says what is missing with an error of its own. */
import { rejects } from "node:assert";
import { NixlNotFoundError, NixlTransferAgent } from "kvcr-nixl";
import { main } from "./two-workers.js";

main(async () => {
	await rejects(
		NixlTransferAgent.create({ libraryPath: "/nonexistent/libnixl_capi.so" }),
		NixlNotFoundError,
	);
});
