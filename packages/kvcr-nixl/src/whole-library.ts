/**
 * Whether a library is all there. The loader maps what a library's header speaks of without a look at the length of the
 * file, and what an interrupted download left out then ends the process with a bus error.
 */
import {
	closeSync,
	fstatSync,
	openSync,
	readdirSync,
	readSync,
	statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";

const HEADER_BYTES = 64;
const SEGMENT_BYTES = 56;

/** The first bytes of an ELF file of 64 bits, little-endian: all others the loader refuses by itself. */
const MAGIC = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);

/** The kind of segment that is mapped. */
const LOAD = 1;

/**
 * What is missing from a library or, where it lies in NIXL's wheel, from what it loads there; `undefined` when nothing is.
 * @param path a file, or a name for the loader to find, of which nothing is known here
 */
export function incompleteness(path: string): string | undefined {
	if (!path.includes("/")) return undefined;
	const missing = missingPart(path);
	if (missing !== undefined) return missing;
	for (const file of restOfWheel(path)) {
		const cut = missingPart(file);
		if (cut !== undefined) return `${file}, which comes with it: ${cut}`;
	}
	return undefined;
}

/** The libraries of NIXL's wheel: beside the one in question, those brought along, and UCX's modules among them. */
function restOfWheel(path: string): string[] {
	const folder = dirname(path);
	const flavor = /^\.(nixl_cu\d+)\.mesonpy\.libs$/.exec(basename(folder))?.[1];
	if (flavor === undefined) return [];
	const brought = join(folder, "..", `${flavor}.libs`);
	return [
		...libraries(folder),
		join(folder, "plugins", "libplugin_UCX.so"),
		...libraries(brought),
		...libraries(join(brought, "ucx")),
	];
}

function libraries(folder: string): string[] {
	try {
		return readdirSync(folder)
			.filter((name) => /\.so(\.|$)/.test(name))
			.map((name) => join(folder, name));
	} catch {
		return [];
	}
}

/** What is not there, or is no library at all, is left to the loader, which names its reasons. */
function missingPart(path: string): string | undefined {
	let file: number;
	try {
		// Opening a pipe would wait for ever.
		if (!statSync(path).isFile()) return undefined;
		file = openSync(path, "r");
	} catch {
		return undefined;
	}
	try {
		const { size } = fstatSync(file);
		const end = endOfSegments(file);
		return end > size
			? `the file is cut short, it has ${size} bytes of at least ${end}`
			: undefined;
	} catch {
		return undefined;
	} finally {
		closeSync(file);
	}
}

/** Where the last mapped byte lies in the file; 0 for what is no library. */
function endOfSegments(file: number): number {
	const header = read(file, HEADER_BYTES, 0);
	if (header.length < HEADER_BYTES || !header.subarray(0, 6).equals(MAGIC))
		return 0;
	const table = Number(header.readBigUInt64LE(32));
	const bytesEach = header.readUInt16LE(54);
	if (bytesEach !== SEGMENT_BYTES) return 0;
	const length = bytesEach * header.readUInt16LE(56);
	const segments = read(file, length, table);
	let end = table + length;
	for (let at = 0; at + bytesEach <= segments.length; at += bytesEach) {
		if (segments.readUInt32LE(at) !== LOAD) continue;
		const offset = Number(segments.readBigUInt64LE(at + 8));
		end = Math.max(end, offset + Number(segments.readBigUInt64LE(at + 32)));
	}
	return end;
}

function read(file: number, length: number, from: number): Buffer {
	const bytes = Buffer.alloc(length);
	return bytes.subarray(0, readSync(file, bytes, 0, length, from));
}
