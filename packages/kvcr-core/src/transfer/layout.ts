/** Layouts: the ordered labels of a block's pieces, and which pieces answer a request. */

/**
 * Positions in `have` that give the pieces `want` asks for, in the order asked. Equal layouts always match. A subset matches
 * only when allowed and unambiguous: every wanted label occurs once in each list.
 */
export function layoutIndices(
	have: readonly string[],
	want: readonly string[],
	allowSubset: boolean,
): readonly number[] | undefined {
	if (sameLayout(have, want)) return have.map((_label, index) => index);
	if (!allowSubset || want.length === 0 || new Set(want).size !== want.length)
		return undefined;
	const indices: number[] = [];
	for (const label of want) {
		const index = have.indexOf(label);
		if (index < 0 || have.indexOf(label, index + 1) >= 0) return undefined;
		indices.push(index);
	}
	return indices;
}

/** True for layouts with equal labels in equal order. */
export function sameLayout(
	left: readonly string[],
	right: readonly string[],
): boolean {
	return (
		left === right ||
		(left.length === right.length &&
			left.every((label, index) => label === right[index]))
	);
}
