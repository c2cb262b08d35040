/** The end of an instance: bounded, in an order that never lets memory go while something can still touch it. */
import type { Settings } from "./options.js";
import { type Clock, KvcrError, type Timer } from "./ports/index.js";
import type { Wiring } from "./wiring.js";

/**
 * Ends everything. Resolves once the agent has proven that nothing native can touch memory any more.
 * @throws NotQuiescentError when it cannot: the memory stays. Other errors come after the memory is safe.
 */
export async function closeAll(
	parts: Wiring,
	settings: Settings,
): Promise<void> {
	const { independent, resolver, pulls, serve, copier, cache, agent, channel } =
		parts;
	// Called by a task of the owner, or by what it calls: the turn ends first, since what closing queues runs after it.
	if (parts.owner.draining || cache?.deciding) await undefined;
	const failures: unknown[] = [];
	const attempt = (step: () => void): void => {
		try {
			step();
		} catch (error) {
			failures.push(error);
		}
	};
	attempt(() => independent.close());
	attempt(() => resolver.close());
	attempt(() => copier.close());
	attempt(() => parts.integrity?.close());
	attempt(() => pulls.stop());
	attempt(() => serve.stop());
	attempt(() => cache?.close());
	drain(parts, attempt);
	// A block that had arrived by now was copied on, or began to be: no slice may run when the memory goes.
	attempt(() => copier.close());
	drain(parts, attempt);
	await transfersEnded(parts, settings.closeTimeoutMs);
	try {
		await within(channel.close(), settings.closeTimeoutMs, parts.clock);
	} catch (error) {
		failures.push(error);
	}
	parts.inbox.close();
	// This is the proof. Where it fails, everything below would free memory under a write.
	try {
		await agent.close();
	} catch (error) {
		surrender(parts, attempt);
		throw error;
	}
	attempt(() => parts.pump.stop());
	attempt(() => serve.quiesced());
	attempt(() => pulls.quiesced());
	drain(parts, attempt);
	const unreleased = parts.pins?.close() ?? [];
	attempt(() => parts.sources.close());
	attempt(() => parts.routes.close());
	parts.stall.close();
	parts.advice.clear();
	parts.operations.failAll("closed");
	attempt(() => cache?.settle());
	if (unreleased.length > 0) {
		const list = unreleased.join(", ");
		failures.push(
			new KvcrError(
				"ERR_KVCR_PINS_HELD",
				`close: the framework did not take back pins ${list}`,
			),
		);
	}
	if (failures.length > 0) throw failures[0];
}

/** Nothing can be proven: every buffer stays, timers go, and whoever still waits is told what must not be touched. */
function surrender(parts: Wiring, attempt: (step: () => void) => void): void {
	const { pulls, serve, sources, stall, operations, routes } = parts;
	attempt(() => pulls.surrender());
	attempt(() => serve.surrender());
	drain(parts, attempt);
	attempt(() => sources.close());
	attempt(() => routes.close());
	stall.close();
	operations.failAll("uncertain");
}

function drain(parts: Wiring, attempt: (step: () => void) => void): void {
	// A task that throws leaves those behind it queued: go on until none is left.
	while (parts.owner.size > 0) attempt(() => parts.owner.drain());
	attempt(() => parts.cache?.settle());
}

/** Waits, at most `limitMs`, until every transfer has come to its end by itself. */
async function transfersEnded(parts: Wiring, limitMs: number): Promise<void> {
	const { pulls, serve, owner, clock } = parts;
	await new Promise<void>((resolve) => {
		let over = false;
		const finish = (): void => {
			if (over) return;
			over = true;
			timer.cancel();
			stopListening();
			clearTimeout(alive);
			resolve();
		};
		const check = (): void => {
			// Once progress has failed nothing ends by itself any more.
			const hopeless = parts.health.failure !== undefined;
			if (hopeless || (pulls.size === 0 && serve.size === 0)) finish();
		};
		// The clock's timers do not keep the process alive, and closing must come to its end.
		const alive = setTimeout(() => {}, limitMs);
		const timer = clock.schedule(limitMs, finish);
		const stopListening = owner.onWake(() => queueMicrotask(check));
		check();
	});
}

/**
 * The end of a promise, or of the time it has.
 * @throws KvcrError when the time is over, and what the promise is rejected with
 */
async function within(
	promise: Promise<void>,
	limitMs: number,
	clock: Clock,
): Promise<void> {
	let timer: Timer | undefined;
	// The clock's timers do not keep the process alive, and closing must come to its end.
	const alive = setTimeout(() => {}, limitMs);
	try {
		await Promise.race([
			promise,
			new Promise((_, reject) => {
				timer = clock.schedule(limitMs, () =>
					reject(
						new KvcrError(
							"ERR_KVCR_CHANNEL_OPEN",
							`close: the control channel did not close within ${limitMs} ms`,
						),
					),
				);
			}),
		]);
	} finally {
		timer?.cancel();
		clearTimeout(alive);
	}
}
