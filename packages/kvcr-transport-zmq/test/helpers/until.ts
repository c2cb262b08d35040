/** Waits until something is so. @throws after `ms` milliseconds, naming it. */
export async function until(what: string, check: () => boolean, ms = 8_000) {
	const end = performance.now() + ms;
	while (!check()) {
		if (performance.now() > end) throw new Error(`in vain: ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}
