/** What can be asked of an agent and its regions, and the checks of it. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { checkObject, InvalidArgumentError, type RegionSpec } from "kvcr-core";
import { isAgentName, MAX_NAME_BYTES } from "./metadata.js";
import { Backing, type NativeRegionSpec } from "./native.js";

/** Options of `NixlTransferAgent.create`. */
export interface NixlAgentOptions {
	/**
	 * Name of the agent, 1 to 255 bytes without NUL; must be unique among all agents that may meet.
	 * @default host name, process and random digits: unique by itself
	 */
	readonly name?: string;
	/**
	 * Path of `libnixl_capi.so`, or of the folder that the NIXL wheel was unpacked into.
	 * @default looked for: `KVCR_NIXL_LIBRARY`, Python's package folders, the loader's search path
	 */
	readonly libraryPath?: string;
	/**
	 * Fail at start-up when there is no active RDMA device that UCX may use, instead of running over shared memory or TCP.
	 * @default false
	 */
	readonly requireRdma?: boolean;
	/**
	 * Longest `close` waits for writes in flight, in milliseconds, 1 to 600,000.
	 * @default 3000
	 */
	readonly closeTimeoutMs?: number;
}

/** A region to allocate, with this agent's choices of where. */
export interface NixlRegionSpec extends RegionSpec {
	/**
	 * `"anonymous"`: private to this process. `"memfd"`: shareable by the region's `path`. `{ shared: NAME }`: a new file
	 * `/dev/shm/NAME`, removed when the region ends or the process exits; a signal that kills it leaves the name.
	 * @default "anonymous"
	 */
	readonly backing?:
		| "anonymous"
		| "memfd"
		| {
				/** Name of the file in `/dev/shm`. */
				readonly shared: string;
		  };
	/**
	 * Use huge pages of 2 MiB. Fails when none are reserved. Not with `{ shared }`.
	 * @default false
	 */
	readonly hugePages?: boolean;
}

/** Memory of another process to map: `elementCount` elements of `elementBytes` bytes, contiguous. */
export interface NixlMapSpec extends RegionSpec {
	/** A file in `/dev/shm`, a `path` of another agent's region, or any other regular file; mapped read-write. */
	readonly path: string;
	/**
	 * Where the elements begin in the file, in bytes, a multiple of the page size.
	 * @default 0
	 */
	readonly offset?: number;
}

/** Longest wait that may be asked for, in milliseconds. */
const MAX_CLOSE_TIMEOUT_MS = 600_000;

/** Largest element: what one `Uint8Array` can show on every supported Node.js. */
const MAX_ELEMENT_BYTES = 2 ** 31;

/** Bytes per registration and ArrayBuffer, at most. Slower to make when smaller, and wasteful to retry when larger. */
const SLICE_BYTES = 2 ** 30;

/** Most slices of one region. */
const MAX_SLICES = 4096;

/** The options with their defaults. @throws InvalidArgumentError */
export function checkAgentOptions(
	operation: string,
	options: NixlAgentOptions,
): Required<Omit<NixlAgentOptions, "libraryPath">> {
	checkObject(operation, "options", options);
	const name =
		options.name ??
		`${hostname().slice(0, 64)}-${process.pid}-${randomBytes(6).toString("hex")}`;
	if (!isAgentName(name)) {
		throw new InvalidArgumentError(
			operation,
			"name",
			name,
			`1 to ${MAX_NAME_BYTES} bytes of well-formed text without NUL`,
		);
	}
	const { requireRdma = false, closeTimeoutMs = 3000 } = options;
	if (typeof requireRdma !== "boolean")
		throw new InvalidArgumentError(
			operation,
			"requireRdma",
			requireRdma,
			"a boolean",
		);
	if (
		!Number.isInteger(closeTimeoutMs) ||
		closeTimeoutMs < 1 ||
		closeTimeoutMs > MAX_CLOSE_TIMEOUT_MS
	) {
		throw new InvalidArgumentError(
			operation,
			"closeTimeoutMs",
			closeTimeoutMs,
			`an integer of 1 to ${MAX_CLOSE_TIMEOUT_MS}`,
		);
	}
	return { name, requireRdma, closeTimeoutMs };
}

/** A region as it was asked for: everything about it is read once. */
export interface CheckedRegion extends NativeRegionSpec {
	readonly label: string;
}

/** The addon's form of a region to allocate. @throws InvalidArgumentError */
export function checkRegionSpec(
	operation: string,
	spec: NixlRegionSpec,
): CheckedRegion {
	const geometry = checkGeometry(operation, spec);
	const { backing = "anonymous", hugePages = false } = spec;
	if (typeof hugePages !== "boolean")
		throw new InvalidArgumentError(
			operation,
			"spec.hugePages",
			hugePages,
			"a boolean",
		);
	if (backing === "anonymous" || backing === "memfd") {
		return {
			...geometry,
			backing: Backing[backing],
			name: "",
			offset: 0,
			hugePages,
		};
	}
	const name = (backing as { shared?: unknown } | null)?.shared;
	if (typeof name !== "string" || !/^[A-Za-z0-9._-]{1,200}$/.test(name)) {
		throw new InvalidArgumentError(
			operation,
			"spec.backing",
			backing,
			'"anonymous", "memfd" or { shared: a name of letters, digits, ".", "_" and "-" }',
		);
	}
	if (hugePages)
		throw new InvalidArgumentError(
			operation,
			"spec.hugePages",
			hugePages,
			"absent for named shared memory",
		);
	return {
		...geometry,
		backing: Backing.shared,
		name,
		offset: 0,
		hugePages: false,
	};
}

/** The addon's form of a region to map. @throws InvalidArgumentError */
export function checkMapSpec(
	operation: string,
	spec: NixlMapSpec,
): CheckedRegion {
	const geometry = checkGeometry(operation, spec);
	const { path, offset = 0 } = spec;
	if (typeof path !== "string" || path.length === 0 || path.includes("\0"))
		throw new InvalidArgumentError(operation, "spec.path", path, "a path");
	if (!Number.isSafeInteger(offset) || offset < 0)
		throw new InvalidArgumentError(
			operation,
			"spec.offset",
			offset,
			"a non-negative integer",
		);
	return {
		...geometry,
		backing: Backing.file,
		name: path,
		offset,
		hugePages: false,
	};
}

function checkGeometry(operation: string, spec: RegionSpec) {
	checkObject(operation, "spec", spec);
	const { label, elementBytes, elementCount } = spec;
	if (typeof label !== "string")
		throw new InvalidArgumentError(operation, "spec.label", label, "a string");
	if (
		!Number.isInteger(elementBytes) ||
		elementBytes < 1 ||
		elementBytes > MAX_ELEMENT_BYTES
	) {
		throw new InvalidArgumentError(
			operation,
			"spec.elementBytes",
			elementBytes,
			`an integer of 1 to ${MAX_ELEMENT_BYTES}`,
		);
	}
	const perSlice = Math.max(1, Math.floor(SLICE_BYTES / elementBytes));
	if (
		!Number.isInteger(elementCount) ||
		elementCount < 1 ||
		elementCount > perSlice * MAX_SLICES
	) {
		throw new InvalidArgumentError(
			operation,
			"spec.elementCount",
			elementCount,
			`an integer of 1 to ${perSlice * MAX_SLICES}`,
		);
	}
	return {
		label,
		elementBytes,
		elementCount,
		sliceBytes: perSlice * elementBytes,
	};
}
