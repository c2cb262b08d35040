/**
 * Arguments of the owner's calls: read once, and checked before anything changes. Everything here throws
 * `InvalidArgumentError` naming the call, the argument and its value.
 */
import { requestAdviceId } from "../hints/index.js";
import {
	type AdviceId,
	blockKey,
	type FrameworkPiece,
	InvalidArgumentError,
} from "../ports/index.js";
import type {
	DeliverDestination,
	DepositBlock,
	DepositPiece,
} from "./calls.js";
import type { DepositSource } from "./deposit-work.js";
import type { FrameworkMemory } from "./framework-memory.js";
import { type KeyRef, ownKeyRef } from "./key-ref.js";

/** A batch without its repetitions: keys and what goes with them, of equal length. */
export interface Batch<T> {
	readonly refs: readonly KeyRef[];
	readonly items: readonly T[];
}

/** The blocks of a deposit. @throws also ElementOutOfRangeError, RegionReleasedError */
export function readDeposits(
	blocks: Iterable<DepositBlock>,
	memory: FrameworkMemory,
): Batch<DepositSource> {
	return readBatch(blocks, "Kvcr.deposit", "blocks", (block, at) =>
		depositSource(block, at, memory),
	);
}

/** The destinations of a delivery. @throws also ElementOutOfRangeError, RegionReleasedError */
export function readDeliveries(
	destinations: Iterable<DeliverDestination>,
	memory: FrameworkMemory,
): Batch<readonly FrameworkPiece[]> {
	const used = new Set<string>();
	return readBatch(
		destinations,
		"Kvcr.deliver",
		"destinations",
		({ pieces }, at) => {
			memory.check(pieces, "Kvcr.deliver", `${at}.pieces`);
			for (const [index, { region, element }] of pieces.entries()) {
				const place = `${element} ${region.label}`;
				if (used.has(place))
					throw new InvalidArgumentError(
						"Kvcr.deliver",
						`${at}.pieces[${index}]`,
						place,
						"a place used once",
					);
				used.add(place);
			}
			// The caller may use its list again.
			return pieces.map(({ label, region, element }) => ({
				label,
				region,
				element,
			}));
		},
	);
}

/** A string or a single key can be iterated too, and is never meant. */
export function checkList(
	list: unknown,
	operation: string,
	argument: string,
	expected: string,
): void {
	if (
		typeof list === "object" &&
		list !== null &&
		Symbol.iterator in list &&
		!(list instanceof Uint8Array)
	)
		return;
	throw new InvalidArgumentError(operation, argument, list, expected);
}

export function adviceOf(
	requestId: string | undefined,
	operation: string,
): AdviceId | undefined {
	if (requestId === undefined) return undefined;
	checkRequestId(requestId, operation);
	return requestAdviceId(requestId);
}

export function checkRequestId(requestId: string, operation: string): void {
	if (typeof requestId === "string" && requestId.length > 0) return;
	throw new InvalidArgumentError(
		operation,
		"requestId",
		requestId,
		"a non-empty string",
	);
}

/** Reads a batch of keyed items; the first of equal keys counts. */
function readBatch<Item extends { readonly key: Uint8Array }, T>(
	batch: Iterable<Item>,
	operation: string,
	argument: string,
	read: (item: Item, at: string) => T,
): Batch<T> {
	checkList(batch, operation, argument, "an iterable");
	const refs: KeyRef[] = [];
	const items: T[] = [];
	const seen = new Set<string>();
	let index = 0;
	for (const item of batch) {
		const at = `${argument}[${index}]`;
		index += 1;
		if (typeof item !== "object" || item === null)
			throw new InvalidArgumentError(
				operation,
				at,
				item,
				"an object with a key",
			);
		const ref = ownKeyRef(blockKey(item.key, operation, `${at}.key`));
		const value = read(item, at);
		if (seen.has(ref.text)) continue;
		seen.add(ref.text);
		refs.push(ref);
		items.push(value);
	}
	return { refs, items };
}

function depositSource(
	block: DepositBlock,
	at: string,
	memory: FrameworkMemory,
): DepositSource {
	const pieces: unknown = block.pieces;
	if (!Array.isArray(pieces) || pieces.length === 0) {
		throw new InvalidArgumentError(
			"Kvcr.deposit",
			`${at}.pieces`,
			pieces,
			"a non-empty array of pieces",
		);
	}
	const layout: string[] = [];
	const bytes: Uint8Array[] = [];
	// By index, which finds the holes of an array as well.
	for (const [index, piece] of (pieces as DepositPiece[]).entries()) {
		bytes.push(pieceBytes(piece, `${at}.pieces[${index}]`, memory));
		layout.push(piece.label);
	}
	return { layout, bytes };
}

function pieceBytes(
	piece: DepositPiece,
	at: string,
	memory: FrameworkMemory,
): Uint8Array {
	if (typeof piece !== "object" || piece === null)
		throw new InvalidArgumentError(
			"Kvcr.deposit",
			at,
			piece,
			"a piece { label, bytes } or { label, region, element }",
		);
	if (!("bytes" in piece)) {
		memory.check([piece], "Kvcr.deposit", at);
		return piece.region.element(piece.element);
	}
	memory.checkLayout([piece.label], "Kvcr.deposit", `${at}.label`);
	const expected = memory.slotBytes(piece.label);
	if (
		!(piece.bytes instanceof Uint8Array) ||
		piece.bytes.byteLength !== expected
	)
		throw new InvalidArgumentError(
			"Kvcr.deposit",
			`${at}.bytes`,
			piece.bytes,
			`${expected} bytes, a slot of its pool`,
		);
	return piece.bytes;
}
