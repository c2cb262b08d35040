/**
 * Sizes of a row of buffers, in units. The first 32 have one unit, the next 32 two, and so on up to 16: never much more
 * memory than is used, and few buffers in the end, so that what describes them stays in the cache.
 */

const ROW_BITS = 5;
const ROW = 1 << ROW_BITS;
const LAST_GRADE = 4;
/** Most units in a buffer. Numbers of segments and of keys have room for as many (see their enums; a test ties them). */
export const MOST_UNITS: number = 1 << LAST_GRADE;

/** Number of units in a buffer. */
export function unitsIn(buffer: number): number {
	return 1 << gradeOf(buffer);
}

/** Number of units in the buffers before it. */
export function unitsBefore(buffer: number): number {
	const grade = gradeOf(buffer);
	return (
		unitsBeforeGrade(grade) + (buffer - (grade << ROW_BITS)) * (1 << grade)
	);
}

/** Number of the buffer that holds a unit. */
export function bufferOf(unit: number): number {
	let grade = 0;
	while (grade < LAST_GRADE && unit >= unitsBeforeGrade(grade + 1)) grade++;
	return (
		(grade << ROW_BITS) +
		Math.floor((unit - unitsBeforeGrade(grade)) / (1 << grade))
	);
}

function gradeOf(buffer: number): number {
	return Math.min(buffer >> ROW_BITS, LAST_GRADE);
}

function unitsBeforeGrade(grade: number): number {
	return ((1 << grade) - 1) * ROW;
}
