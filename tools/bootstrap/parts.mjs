/** Every part of the bootstrap, in the order they run: a part may use what those above it made ready. */
import { crossCompiler } from "./parts/cross-compiler.mjs";
import { nativeTools } from "./parts/native-tools.mjs";
import { natsServer } from "./parts/nats-server.mjs";
import { nixl } from "./parts/nixl.mjs";
import { pnpm } from "./parts/pnpm.mjs";
import { pythonEvents } from "./parts/python-events.mjs";
import { pythonPeer } from "./parts/python-peer.mjs";
import { verbsLibraries } from "./parts/verbs-libraries.mjs";
import { workspace } from "./parts/workspace.mjs";

/** @type {readonly import("./lib/part.mjs").Part[]} */
export const allParts = [
	pnpm,
	nativeTools,
	crossCompiler,
	workspace,
	nixl,
	verbsLibraries,
	natsServer,
	pythonEvents,
	pythonPeer,
];

/** What it takes to run something of ours: no native tools, no servers. */
export const basicParts = ["pnpm", "workspace"];

/** The same with NIXL, and what its addon is built with. */
export const nixlParts = ["pnpm", "native-tools", "workspace", "nixl"];
