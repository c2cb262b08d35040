/** The addon: what it offers, and how it is loaded. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { reasonOf } from "kvcr-core";
import { NativeAddonError } from "./errors.js";

/** How a region's memory comes to be; the numbers are the addon's. */
export const Backing = {
	anonymous: 0,
	memfd: 1,
	shared: 2,
	file: 3,
} as const;

/** What `createRegion` of the addon takes. */
export interface NativeRegionSpec {
	readonly backing: number;
	readonly name: string;
	readonly offset: number;
	readonly hugePages: boolean;
	readonly elementBytes: number;
	readonly elementCount: number;
	/** Bytes per registration and ArrayBuffer, a multiple of `elementBytes`. */
	readonly sliceBytes: number;
}

/** A region as the addon made it. */
export interface NativeRegion {
	/** Address of its first byte in this process. */
	readonly addr: bigint;
	/** Where another process can map it; empty when it cannot. */
	readonly path: string;
	/** One per slice. */
	readonly buffers: readonly ArrayBuffer[];
}

/** One engine. Errors carry a `code` of the form `NATIVE_…`. */
export interface NativeAgent {
	/** The library file in use. */
	readonly library: string;
	/** Version of UCX, or empty when unknown. */
	readonly ucxVersion: string;
	createRegion(id: number, spec: NativeRegionSpec): Promise<NativeRegion>;
	dropRegion(id: number): void;
	localMetadata(): Uint8Array;
	/**
	 * `connections`: the metadata without memory; `regions`: four words per region (address, stride, size, count).
	 */
	addRemote(
		id: number,
		name: string,
		connections: Uint8Array,
		metadata: Uint8Array,
		regions: BigUint64Array,
		replaces: number,
		reload: boolean,
	): void;
	dropRemote(id: number): void;
	connect(remote: number): void;
	/** `pairs`: four numbers per pair (region, element, remote region, remote element). */
	write(
		id: number,
		remote: number,
		pairs: Float64Array,
		pairCount: number,
		notification: Uint8Array,
	): void;
	cancel(id: number): boolean;
	notify(remote: number, payload: Uint8Array): boolean;
	/** Adds to the number of expectations. */
	expect(change: number): void;
	/** Three entries per completion: id, outcome (0 done, 1 failed, 2 cancelled), status. */
	takeCompletions(): number[];
	/** Two entries per notification: sender, payload. */
	takeNotifications(): (string | Uint8Array)[];
	/** Notifications that came while too many waited to be taken, and were dropped. */
	notificationsDropped(): number;
	/** The process ends: waits at most so long for writes in flight; a `close` under way takes no longer either. */
	endWithin(patienceMs: number): void;
	/** Resolves to whether everything is known to have ended. */
	close(patienceMs: number): Promise<boolean>;
}

/** What the addon exports. */
export interface NativeBinding {
	createAgent(
		library: string,
		name: string,
		wake: () => void,
	): Promise<NativeAgent>;
	detach(buffers: readonly ArrayBuffer[]): void;
	/** A variable as the process has it; the `process.env` of a worker may be its own. */
	environment(name: string): string | undefined;
}

let loaded: NativeBinding | undefined;

/**
 * Loads the addon from the package's `prebuilds` folder, once. In a clone of the repository the one that was built last
 * goes first, unless `PREBUILDS_ONLY` is set.
 * @throws NativeAddonError when there is none for this machine.
 */
export function nativeBinding(): NativeBinding {
	if (loaded !== undefined) return loaded;
	try {
		loaded = prebuilt(packageFolder()) as NativeBinding;
	} catch (error) {
		throw new NativeAddonError(reasonOf(error).replace(/\s+/g, " ").trim(), {
			cause: error,
		});
	}
	return loaded;
}

/**
 * The addon in a folder. `node-gyp-build` is asked for here and not imported: bundled into an ES module it throws while
 * that is loaded, where nobody could say what to do.
 */
function prebuilt(folder: string): unknown {
	const load = createRequire(import.meta.url)("node-gyp-build") as (
		folder: string,
	) => unknown;
	return load(folder);
}

/** The folder of this package: sources and build output both lie one level below it. */
function packageFolder(): string {
	// Not __dirname, which in a program run with `node -e` is a global of another meaning.
	return join(dirname(fileURLToPath(import.meta.url)), "..");
}
