/** Errors of this package, and the translation of what the addon throws. */
import {
	ClosedError,
	InvalidArgumentError,
	InvalidMetadataError,
	KvcrError,
	StaleRemoteError,
	TransferAgentError,
} from "kvcr-core";

/** NIXL is not installed, or not where this package looks. The message tells where it looked and what to type. */
export class NixlNotFoundError extends KvcrError {
	/** Every place that was tried, in order. */
	readonly lookedIn: readonly string[];

	/** @param lookedIn the places, in the order they were tried */
	constructor(operation: string, lookedIn: readonly string[]) {
		super(
			"ERR_KVCR_NIXL_NOT_FOUND",
			`${operation}: NIXL's C library was not found. Looked in: ${lookedIn.join("; ")}. ` +
				"Get it with `pip install --no-deps nixl-cu12` (it runs without a GPU), or without installing anything: " +
				"`pip download --no-deps nixl-cu12==1.5.1 && python3 -m zipfile -e nixl_cu12-*.whl nixl`, " +
				"then set KVCR_NIXL_LIBRARY=$PWD/nixl/.nixl_cu12.mesonpy.libs/libnixl_capi.so " +
				"(keep the unpacked tree as it is: the libraries find each other by relative paths).",
		);
		this.lookedIn = lookedIn;
	}
}

/** A library was found and cannot be used: not NIXL, its stub, another architecture, or incomplete. */
export class NixlLibraryError extends KvcrError {
	/** The library in question. */
	readonly path: string;

	/** @param reason what is wrong with it, without operation and path; `options.cause` is the loader's error where there is one */
	constructor(
		operation: string,
		path: string,
		reason: string,
		options?: ErrorOptions,
	) {
		super(
			"ERR_KVCR_NIXL_LIBRARY",
			`${operation}: the NIXL library ${path} cannot be used: ${reason}`,
			options,
		);
		this.path = path;
	}
}

/** This package has no addon for the machine it runs on, or it does not load. */
export class NativeAddonError extends KvcrError {
	/** @param reason why it does not load; `options.cause` is what loading it threw */
	constructor(reason: string, options?: ErrorOptions) {
		super(
			"ERR_KVCR_NATIVE_ADDON",
			`kvcr-nixl: the addon for ${process.platform}-${process.arch} cannot be loaded: ${reason}. ` +
				"Prebuilt addons exist for linux-x64 and linux-arm64 with glibc 2.28 or later; check that the " +
				"`prebuilds` folder of the package was installed, and that bundlers leave kvcr-nixl external.",
			options,
		);
	}
}

/** Memory could not be had as asked for: the message names the cause, such as missing huge pages or a short file. */
export class RegionMemoryError extends KvcrError {
	/** @param reason the cause, without the operation; `options.cause` is the addon's error where there is one */
	constructor(operation: string, reason: string, options?: ErrorOptions) {
		super("ERR_KVCR_REGION_MEMORY", `${operation}: ${reason}`, options);
	}
}

/** What the failed call was about, for the message. */
export interface NativeContext {
	/** Path of the library, where one is being loaded. */
	readonly library?: string;
	/** Bytes of a peer, where they are being loaded. */
	readonly metadata?: Uint8Array;
	/** Name of the remote agent concerned. */
	readonly remote?: string;
}

/** Turns an exception of the addon into one of the typed errors; anything else is returned as it is. */
export function translateNative(
	operation: string,
	error: unknown,
	context: NativeContext = {},
): unknown {
	if (!(error instanceof Error)) return error;
	const options = { cause: error };
	switch ((error as { code?: unknown }).code) {
		case "NATIVE_LIBRARY":
			return new NixlLibraryError(
				operation,
				context.library ?? "",
				error.message,
				options,
			);
		case "NATIVE_ENGINE":
			return new TransferAgentError(operation, error.message, options);
		case "NATIVE_METADATA":
		case "NATIVE_COVERAGE":
			return new InvalidMetadataError(
				operation,
				context.metadata,
				error.message,
				options,
			);
		case "NATIVE_STALE":
			return new StaleRemoteError(operation, context.remote ?? "");
		case "NATIVE_ARGUMENT":
			return new InvalidArgumentError(
				operation,
				"arguments",
				error.message,
				"valid",
			);
		case "NATIVE_MEMORY":
			return new RegionMemoryError(operation, error.message, options);
		case "NATIVE_CLOSED":
			return new ClosedError(operation, "the agent");
		default:
			return error;
	}
}
