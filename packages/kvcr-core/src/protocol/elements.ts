/** Memory elements: the destinations a `start_write` names. */
import { isWireMap, type WireValue } from "./codec.js";
import { FieldViolation } from "./errors.js";
import {
	readArray,
	readInteger,
	readName,
	readOptionalBoolean,
	readText,
} from "./fields.js";
import { MAX_LABELS_PER_KEY, MAX_REGION_ELEMENTS } from "./limits.js";

/** One element of a registered region of the sender. */
export interface TransferElement {
	/** Transfer agent name of the memory's owner. */
	readonly endPointName: string;
	/** Index into the region. */
	readonly elementIndex: number;
	/** Label of the piece, which selects the region. May be empty. */
	readonly label: string;
	/** True for memory of the owner's framework, false for its managed G2. */
	readonly framework: boolean;
}

/**
 * Reads one list of elements per key; each must belong to `owner`, the agent that sent the message. Equal strings become
 * one string.
 */
export function readElementLists(
	value: unknown,
	path: string,
	keyCount: number,
	owner: string,
): TransferElement[][] {
	const lists = readArray(value, path, keyCount, keyCount);
	const labels = new Map<string, string>();
	return lists.map((list, i) => {
		const entries = readArray(list, `${path}[${i}]`, 1, MAX_LABELS_PER_KEY);
		return entries.map((entry, j) => {
			try {
				return readElement(entry, owner, labels);
			} catch (error) {
				// Paths are put together only for what is wrong: there can be thousands of elements.
				if (error instanceof FieldViolation)
					throw new FieldViolation(
						`${path}[${i}][${j}]${error.field}`,
						error.value,
						error.expected,
					);
				throw error;
			}
		});
	});
}

/** The wire form of element lists. */
export function wireElementLists(
	lists: readonly (readonly TransferElement[])[],
): WireValue {
	return lists.map((list) =>
		list.map((element) => ({
			end_point_name: element.endPointName,
			element_index: element.elementIndex,
			label: element.label,
			framework: element.framework,
		})),
	);
}

function readElement(
	value: unknown,
	owner: string,
	labels: Map<string, string>,
): TransferElement {
	if (!isWireMap(value)) throw new FieldViolation("", value, "a map");
	const name = readName(value.end_point_name, ".end_point_name");
	if (name !== owner)
		throw new FieldViolation(
			".end_point_name",
			name,
			`the sending agent ${JSON.stringify(owner)}`,
		);
	let label = value.label === undefined ? "" : readText(value.label, ".label");
	const known = labels.get(label);
	if (known === undefined) labels.set(label, label);
	else label = known;
	return {
		endPointName: owner,
		elementIndex: readInteger(
			value.element_index,
			".element_index",
			0,
			MAX_REGION_ELEMENTS - 1,
		),
		label,
		framework: readOptionalBoolean(value.framework, ".framework", true),
	};
}
