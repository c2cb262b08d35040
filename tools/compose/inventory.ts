/**
 * What a router knows of its workers: where they are reached, and which blocks their events say they hold. A router sees
 * block hashes and media, never memory.
 */
import { type BlockKey, blockKey, InvalidArgumentError } from "kvcr-core";
import { VllmKeyAdapter } from "kvcr-vllm-adapter";

/** Events of one worker, as it published them, oldest first. */
export interface WorkerReport {
	readonly worker: string;
	/** `source_control_endpoint` of hints that name this worker. */
	readonly control_endpoint: string;
	readonly router_capabilities: readonly string[];
	readonly events: readonly {
		/** Offload keys, hexadecimal. */
		readonly keys: readonly string[];
		readonly medium: string;
		readonly removed: boolean;
		/** The secondary tier that speaks; absent for memory of the engine itself. */
		readonly ownership?: string | null;
	}[];
}

/** Blocks of one worker by router hash. */
export class WorkerInventory {
	readonly name: string;
	readonly endpoint: string;
	readonly capabilities: ReadonlySet<string>;
	/** Places per key: a removal takes away exactly what it names. */
	readonly #places = new Map<string, Set<string>>();
	readonly #hashes = new Map<string, bigint>();

	constructor(report: WorkerReport) {
		this.name = report.worker;
		this.endpoint = report.control_endpoint;
		this.capabilities = new Set(report.router_capabilities);
		for (const event of report.events)
			for (const key of event.keys) this.#apply(event, key);
	}

	/** Hashes of blocks in memory that the worker's KVCR manages: what independent hints can bring elsewhere. In order of arrival. */
	managed(): bigint[] {
		return this.#select((places) => places.has(MANAGED));
	}

	/** Hashes of blocks in host memory, the engine's own included. */
	inHostMemory(): bigint[] {
		return this.#select((places) =>
			[...places].some((place) => place.startsWith("CPU ")),
		);
	}

	/** Hashes of every block, wherever it is. */
	all(): bigint[] {
		return this.#select(() => true);
	}

	#apply(
		event: Pick<
			WorkerReport["events"][number],
			"medium" | "removed" | "ownership"
		>,
		key: string,
	): void {
		const place = `${event.medium} ${event.ownership ?? ""}`;
		const places = this.#places.get(key) ?? new Set<string>();
		if (event.removed) places.delete(place);
		else places.add(place);
		if (places.size === 0) this.#places.delete(key);
		else this.#places.set(key, places);
		if (!this.#hashes.has(key)) this.#hashes.set(key, hashOf(key));
	}

	#select(wanted: (places: ReadonlySet<string>) => boolean): bigint[] {
		const hashes = new Set<bigint>();
		for (const [key, places] of this.#places)
			if (wanted(places)) hashes.add(this.#hashes.get(key) as bigint);
		return [...hashes];
	}
}

/** Place of a block in managed memory. */
const MANAGED = "CPU kvcr";

const adapter = new VllmKeyAdapter({ events: false });

function hashOf(hex: string): bigint {
	return adapter.decode(keyOf(hex));
}

function keyOf(hex: string): BlockKey {
	return blockKey(new Uint8Array(Buffer.from(hex, "hex")));
}

/**
 * Reads reports from JSON text: one report, or a list of them.
 * @throws InvalidArgumentError naming the field.
 */
export function readReports(text: string, name: string): WorkerReport[] {
	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch (error) {
		throw new InvalidArgumentError(
			"compose",
			name,
			error instanceof Error ? error.message : error,
			"JSON",
		);
	}
	const list: readonly unknown[] = Array.isArray(value) ? value : [value];
	return list.map((entry, index) =>
		readReport(entry, Array.isArray(value) ? `${name}[${index}]` : name),
	);
}

function readReport(value: unknown, at: string): WorkerReport {
	const report = readObject(value, at);
	const { worker, control_endpoint, router_capabilities, events } = report;
	for (const [field, text] of Object.entries({ worker, control_endpoint }))
		if (typeof text !== "string" || text === "")
			refuse(`${at}.${field}`, text, "a non-empty string");
	if (!isStrings(router_capabilities))
		refuse(
			`${at}.router_capabilities`,
			router_capabilities,
			"a list of strings",
		);
	if (!Array.isArray(events))
		refuse(`${at}.events`, events, "a list of events");
	for (const [index, event] of (events as readonly unknown[]).entries())
		checkEvent(event, `${at}.events[${index}]`);
	return report as unknown as WorkerReport;
}

function checkEvent(value: unknown, at: string): void {
	const { keys, medium, removed, ownership } = readObject(value, at);
	if (!isStrings(keys)) refuse(`${at}.keys`, keys, "a list of keys");
	for (const [index, key] of keys.entries())
		if (!/^(?:[0-9a-f]{2}){12,1024}$/i.test(key))
			refuse(`${at}.keys[${index}]`, key, "an offload key in hexadecimal");
	if (typeof medium !== "string") refuse(`${at}.medium`, medium, "a string");
	if (typeof removed !== "boolean")
		refuse(`${at}.removed`, removed, "a boolean");
	if (
		ownership !== undefined &&
		ownership !== null &&
		typeof ownership !== "string"
	)
		refuse(`${at}.ownership`, ownership, "a string, null or absent");
}

function readObject(value: unknown, at: string): Record<string, unknown> {
	if (typeof value !== "object" || value === null || Array.isArray(value))
		return refuse(at, value, "an object");
	return value as Record<string, unknown>;
}

function isStrings(value: unknown): value is readonly string[] {
	return (
		Array.isArray(value) && value.every((entry) => typeof entry === "string")
	);
}

function refuse(argument: string, value: unknown, expected: string): never {
	throw new InvalidArgumentError("compose", argument, value, expected);
}
