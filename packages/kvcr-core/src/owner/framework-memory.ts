/** The framework's registered memory, and the rules by which a piece's label selects a region of it. */
import { poolOfLabel } from "../cache/index.js";
import type { FrameworkPiece, MemoryRegion } from "../ports/index.js";
import {
	ElementOutOfRangeError,
	InvalidArgumentError,
	RegionReleasedError,
} from "../ports/index.js";
import type { TransferElement } from "../protocol/index.js";
import { matchingLabel } from "../protocol/index.js";

export class FrameworkMemory {
	readonly regions: ReadonlyMap<string, MemoryRegion>;
	/** Slot size of each pool, in bytes. */
	readonly #slotBytes: ReadonlyMap<string, number>;
	/** Name of the local agent, as owner of its elements. */
	readonly agentName: string;

	/**
	 * @param regions With labels that are unique.
	 * @param slotBytes Slot size by pool name.
	 */
	constructor(
		regions: readonly MemoryRegion[],
		slotBytes: ReadonlyMap<string, number>,
		agentName: string,
	) {
		this.regions = new Map(regions.map((region) => [region.label, region]));
		this.#slotBytes = slotBytes;
		this.agentName = agentName;
	}

	/**
	 * Checks the pieces of one block.
	 * @throws InvalidArgumentError, ElementOutOfRangeError, RegionReleasedError naming the piece.
	 */
	check(
		pieces: readonly FrameworkPiece[],
		operation: string,
		argument: string,
	): void {
		if (!Array.isArray(pieces) || pieces.length === 0) {
			throw new InvalidArgumentError(
				operation,
				argument,
				pieces,
				"a non-empty array of pieces",
			);
		}
		for (const [index, piece] of (
			pieces as readonly FrameworkPiece[]
		).entries()) {
			this.#checkPiece(piece, operation, `${argument}[${index}]`);
		}
	}

	/** True when `check` would pass. */
	accepts(pieces: readonly FrameworkPiece[]): boolean {
		try {
			this.check(pieces, "pin", "pieces");
			return true;
		} catch {
			return false;
		}
	}

	/** Wire form of a checked piece. */
	element(piece: FrameworkPiece): TransferElement {
		return {
			endPointName: this.agentName,
			elementIndex: piece.element,
			label: piece.label,
			framework: true,
		};
	}

	/**
	 * Checks labels against the pools.
	 * @throws InvalidArgumentError naming the first label without a pool.
	 */
	checkLayout(
		layout: readonly string[],
		operation: string,
		argument: string,
	): void {
		if (!Array.isArray(layout) || layout.length === 0) {
			throw new InvalidArgumentError(
				operation,
				argument,
				layout,
				"a non-empty array of labels",
			);
		}
		for (const [index, label] of (layout as readonly string[]).entries()) {
			this.#slotSize(label, operation, `${argument}[${index}]`);
		}
	}

	/** Bytes of a block in this layout. */
	layoutBytes(layout: readonly string[]): number {
		let bytes = 0;
		for (const label of layout)
			bytes += this.#slotBytes.get(poolOfLabel(label)) ?? 0;
		return bytes;
	}

	/** Slot size of a label's pool, or undefined. */
	slotBytes(label: string): number | undefined {
		return this.#slotBytes.get(poolOfLabel(label));
	}

	#checkPiece(
		piece: FrameworkPiece,
		operation: string,
		argument: string,
	): void {
		if (typeof piece !== "object" || piece === null) {
			throw new InvalidArgumentError(
				operation,
				argument,
				piece,
				"a piece { label, region, element }",
			);
		}
		const { label, region, element } = piece;
		const slotBytes = this.#slotSize(label, operation, `${argument}.label`);
		const match = matchingLabel(this.regions, label, true);
		if (match === undefined || this.regions.get(match) !== region) {
			const expected = `the framework region registered for label ${JSON.stringify(label)}`;
			throw new InvalidArgumentError(
				operation,
				`${argument}.region`,
				region?.label ?? region,
				expected,
			);
		}
		if (region.released) throw new RegionReleasedError(operation, region.label);
		if (
			!Number.isSafeInteger(element) ||
			element < 0 ||
			element >= region.elementCount
		) {
			throw new ElementOutOfRangeError(
				`${operation}: ${argument}`,
				region.label,
				element,
				region.elementCount,
			);
		}
		if (region.elementBytes !== slotBytes) {
			const expected = `a region of ${slotBytes}-byte elements, the slot size of its pool`;
			throw new InvalidArgumentError(
				operation,
				`${argument}.region.elementBytes`,
				region.elementBytes,
				expected,
			);
		}
	}

	#slotSize(label: string, operation: string, argument: string): number {
		const bytes =
			typeof label === "string"
				? this.#slotBytes.get(poolOfLabel(label))
				: undefined;
		if (bytes === undefined) {
			const pools = [...this.#slotBytes.keys()]
				.map((name) => JSON.stringify(name))
				.join(", ");
			throw new InvalidArgumentError(
				operation,
				argument,
				label,
				`a label of one of the pools ${pools}`,
			);
		}
		return bytes;
	}
}
