/** The memory a source reads for its targets: claims on managed blocks, pinned framework memory, and what fits a request. */
import type { ManagedCache, Residency } from "../cache/index.js";
import type { PinLedger } from "../framework/pins.js";
import type { ElementPair, MemoryRegion } from "../ports/index.js";
import type { OwnerQueue } from "../progress/owner-queue.js";
import type { StateLock } from "../progress/state-lock.js";
import type { Telemetry } from "../telemetry/telemetry.js";
import { layoutIndices } from "./layout.js";
import type { ReportedElement } from "./reports.js";
import type { ServeDestination, ServeJob } from "./serve-job.js";

/** What the source memory works with. */
export interface SourceMemoryParts {
	readonly cache: ManagedCache | undefined;
	readonly pins: PinLedger | undefined;
	readonly lock: StateLock;
	readonly owner: OwnerQueue;
	readonly telemetry: Telemetry;
}

/** A write that can be posted: every pair, and the indices of the keys they complete. */
export interface WritePlan {
	readonly pairs: readonly ElementPair[];
	readonly indices: readonly number[];
}

/** A source piece chosen for a destination piece. */
interface SourcePiece {
	readonly region: MemoryRegion;
	readonly element: number;
	readonly label: string;
	readonly owner: "framework" | "kvcr";
}

export class SourceMemory {
	readonly #parts: SourceMemoryParts;

	constructor(parts: SourceMemoryParts) {
		this.#parts = parts;
	}

	/**
	 * Claims what is ready in managed memory. True: nothing is missing, or nothing more could be had. Changes nothing an owner
	 * with the state lock could not see; the caller checks the lock.
	 */
	claim(job: ServeJob): boolean {
		const { cache, pins } = this.#parts;
		const { keys, allowFramework } = job.request;
		for (const { text } of keys) {
			if (job.claims.has(text)) continue;
			const residency = cache?.get(text);
			if (residency?.state !== "READY") continue;
			cache?.claim(residency);
			job.claims.set(text, residency);
		}
		return (
			job.claims.size === keys.length || pins === undefined || !allowFramework
		);
	}

	/** In the owner's turn: asks the framework for what is not claimed. True: settled already. */
	pin(job: ServeJob): boolean {
		const { pins } = this.#parts;
		if (pins === undefined) return true;
		job.pinsRequested = true;
		return pins.acquire(
			job,
			job.request.keys.filter((ref) => !job.claims.has(ref.text)),
		);
	}

	/** Chooses the pieces to write, key by key, and gives back what the write does not need. */
	plan(job: ServeJob): WritePlan {
		const { keys, destinations } = job.request;
		const pairs: ElementPair[] = [];
		const indices: number[] = [];
		const sources: ReportedElement[] = [];
		const usedPins = new Set<string>();
		for (const [index, { text }] of keys.entries()) {
			const wanted = destinations[index] ?? [];
			const residency = job.claims.get(text);
			const pieces = this.#select(job, text, residency, wanted);
			if (pieces === undefined) {
				if (residency !== undefined) this.#unclaim(job, text, residency);
				continue;
			}
			indices.push(index);
			if (residency !== undefined) job.written.push(residency);
			else usedPins.add(text);
			for (const [at, { region, element, label, owner }] of pieces.entries()) {
				const to = wanted[at] as ServeDestination;
				pairs.push({
					region,
					element,
					remoteRegion: to.regionIndex,
					remoteElement: to.element,
				});
				sources.push({ label, element, owner });
				job.bytes += to.size;
			}
		}
		if (job.pinsRequested) this.#parts.pins?.retain(job, usedPins);
		job.sources = sources;
		job.blocks = indices.length;
		return { pairs, indices };
	}

	/** Ends every claim and pin of a job whose write is over. */
	release(job: ServeJob): void {
		const { cache, pins, lock, owner } = this.#parts;
		const claims = [...job.claims.values()];
		job.claims.clear();
		if (claims.length > 0) {
			lock.whenFree(() => {
				for (const residency of claims) cache?.unclaim(residency);
			});
		}
		if (job.pinsRequested) owner.enqueue(() => pins?.drop(job));
	}

	/** A completed move: the managed copies that were written may go once nobody reads them. */
	retire(job: ServeJob): void {
		const { cache, lock, telemetry } = this.#parts;
		if (cache === undefined || job.written.length === 0) return;
		telemetry.count("kvcr_retired_blocks_total", {}, job.written.length);
		lock.whenFree(() => {
			for (const residency of job.written) cache.retire(residency);
		});
	}

	/** The pieces to read for one key: managed memory first, then the framework's, if labels and sizes fit. */
	#select(
		job: ServeJob,
		text: string,
		residency: Residency | undefined,
		wanted: readonly ServeDestination[],
	): readonly SourcePiece[] | undefined {
		const have = this.#available(job, text, residency);
		if (have === undefined) return undefined;
		const indices = layoutIndices(
			have.map((piece) => piece.label),
			wanted.map((piece) => piece.label),
			job.request.allowSubset,
		);
		const chosen = indices?.map((index) => have[index] as SourcePiece);
		const fits = chosen?.every(
			(piece, at) => piece.region.elementBytes === wanted[at]?.size,
		);
		if (fits) return chosen;
		this.#parts.telemetry.warnOnce(
			"layout-mismatch",
			{ key: Buffer.from(text, "latin1").toString("hex") },
			"a peer asked for a block in another layout than it has here",
		);
		return undefined;
	}

	#available(
		job: ServeJob,
		text: string,
		residency: Residency | undefined,
	): readonly SourcePiece[] | undefined {
		const { cache, pins } = this.#parts;
		if (residency !== undefined) {
			return cache?.pieces(residency).map((piece) => ({
				region: piece.region,
				element: piece.slot,
				label: piece.label,
				owner: "kvcr" as const,
			}));
		}
		if (!job.pinsRequested) return undefined;
		return pins
			?.pieces(job, text)
			?.map((piece) => ({ ...piece, owner: "framework" as const }));
	}

	#unclaim(job: ServeJob, text: string, residency: Residency): void {
		job.claims.delete(text);
		this.#parts.lock.whenFree(() => this.#parts.cache?.unclaim(residency));
	}
}
