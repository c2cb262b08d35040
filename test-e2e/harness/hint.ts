/** Hint envelopes as a router would send them: JSON text. */
import { composeKvHint, stringifyKvHint } from "kvcr-core";

/** One action. */
export interface ActionSpec {
	readonly source?: string;
	readonly hashes: readonly bigint[];
	readonly mode?: "copy" | "move";
	readonly scope?: "request" | "independent";
	readonly allowFramework?: boolean;
}

/** JSON text of an envelope. */
export function hint(...actions: readonly ActionSpec[]): string {
	return stringifyKvHint(composeKvHint({ actions }));
}
