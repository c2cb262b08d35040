/** The demo's command line, checked before any process is started. */
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { InvalidHintError, parseHintEnvelope } from "kvcr-core";
import { userPath } from "../lib/user-path.js";
import type { AgentKind } from "./agent.js";
import { UsageError } from "./usage-error.js";

const HELP = `npm run demo [-- --hint FILE] [-- --agent nixl|portable]

Two processes: a source that deposits KV blocks, and a destination that pulls the blocks a hint names
and compares every byte.

  --hint FILE    the hint, as JSON; in it, $SOURCE stands for the control endpoint of the source.
                 The default is tools/demo/hint.json. Its actions have scope "independent".
  --agent KIND   nixl (RDMA) or portable (TCP); the default is nixl where it can be had.
  --help         this text`;

/** What to do. */
export type DemoArguments =
	| { readonly help: string }
	| { readonly hintFile: string; readonly agent: AgentKind | undefined };

/**
 * Reads arguments and looks into the hint file.
 * @param defaultHint Path of the hint when none is given.
 * @throws UsageError
 */
export function readArguments(
	args: readonly string[],
	defaultHint: string,
): DemoArguments {
	const { hint, agent, help } = parse(args);
	if (help === true) return { help: HELP };
	if (agent !== undefined && agent !== "nixl" && agent !== "portable")
		throw new UsageError(
			`demo: --agent must be nixl or portable, got ${JSON.stringify(agent)}`,
		);
	const hintFile = hint === undefined ? defaultHint : userPath(hint);
	readHint(hintFile, "demo:source");
	return { hintFile, agent };
}

/**
 * A hint file with the source's endpoint in it.
 * @throws UsageError when it cannot be read, is no hint, or asks for nothing that the demo could show.
 */
export function readHint(path: string, sourceEndpoint: string): string {
	let bytes: Buffer;
	try {
		bytes = readFileSync(path);
	} catch (error) {
		throw new UsageError(
			`demo: the hint cannot be read: ${(error as Error).message}`,
		);
	}
	// Decoding would replace what is wrong, and say nothing.
	if (!isUtf8(bytes)) throw new UsageError(`demo: ${path} is not UTF-8`);
	const text = bytes.toString("utf8").replaceAll("$SOURCE", sourceEndpoint);
	try {
		const { actions } = parseHintEnvelope(text, { requestId: "demo" });
		if (!actions.some(({ scope }) => scope === "independent"))
			throw new UsageError(
				`demo: ${path} starts nothing by itself: no action has scope "independent"`,
			);
	} catch (error) {
		if (!(error instanceof InvalidHintError)) throw error;
		throw new UsageError(`demo: ${path} is no hint: ${error.message}`);
	}
	return text;
}

function parse(args: readonly string[]) {
	try {
		return parseArgs({
			args: [...args],
			options: {
				hint: { type: "string" },
				agent: { type: "string" },
				help: { type: "boolean", short: "h" },
			},
		}).values;
	} catch (error) {
		throw new UsageError(
			`demo: ${(error as Error).message.split(". ")[0]}\n\n${HELP}`,
		);
	}
}
