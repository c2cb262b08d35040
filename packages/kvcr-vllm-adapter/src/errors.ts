/** Error classes of this package. */
import { KvcrError } from "kvcr-core";

/** Router hashes were to be resolved, but the adapter was constructed without KV cache events. */
export class KvEventsDisabledError extends KvcrError {
	/** @param operation the call that needs them */
	constructor(operation: string) {
		super(
			"ERR_KVCR_KV_EVENTS_DISABLED",
			`${operation}: KV cache events are disabled, so router hashes cannot be resolved; ` +
				"enable them in vLLM (--kv-events-config) and construct the adapter with { events: true }",
		);
	}
}

/** The reverse hash map cannot take a further key. It stays usable; the key was not added. */
export class MapFullError extends KvcrError {
	/** @param what the kind of entry that has no room; `size` is how many there are */
	constructor(what: string, size: number) {
		super(
			"ERR_KVCR_MAP_FULL",
			`ReverseHashMap: no room for a further ${what} beside ${size} entries`,
		);
	}
}

/** All tier bits of a reverse hash map are taken. */
export class TierLimitError extends KvcrError {
	/** @param limit how many tier bits there are */
	constructor(operation: string, limit: number) {
		super(
			"ERR_KVCR_TIER_LIMIT",
			`${operation}: all ${limit} tier bits are in use`,
		);
	}
}
