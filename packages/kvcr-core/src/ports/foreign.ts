/** Code of the caller that is called back. It may be an async function where nothing is waited for. */

/**
 * Looks at what a callback returned. A promise that rejects, and that nobody else has, would end the process: its reason
 * goes to `failed` instead.
 */
export function disregard(
	returned: unknown,
	failed: (reason: unknown) => void,
): void {
	if (typeof returned !== "object" || returned === null) return;
	if (typeof (returned as { then?: unknown }).then !== "function") return;
	Promise.resolve(returned as PromiseLike<unknown>).catch(failed);
}
