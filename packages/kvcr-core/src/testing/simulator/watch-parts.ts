/** Watches the parts of one instance: outcomes of hints, and what pulls tell their listeners. */
import type { Wiring } from "../../wiring.js";
import type { CallBook } from "./call-book.js";
import type { SimInstance } from "./instance.js";
import type { MemoryBook } from "./memory-book.js";
import type { Verdict } from "./violation.js";

/** Listens where the parts of an instance say nothing by themselves. */
export function watchParts(
	instance: SimInstance,
	parts: Wiring,
	verdict: Verdict,
	log: (line: string) => void,
): void {
	const { independent, telemetry, pulls } = parts;
	let nextHint = 1;
	const { submit } = independent;
	independent.submit = (action) => {
		// The ID is known only afterwards, and outcomes may come before.
		const id = `hint-${nextHint++}`;
		instance.calls.hinted(id, action.hashes);
		const given = submit.call(independent, action);
		if (given !== id) verdict.broken("outcome", `${given} is not ${id}`);
		return given;
	};
	telemetry.hintOutcome = (event) => {
		const report = event as Parameters<CallBook["outcome"]>[0];
		log(`${instance.name} ${report.hintId} ${report.outcome}`);
		instance.calls.outcome(report);
	};
	const { start } = pulls;
	pulls.start = (request) => {
		const { listener } = request;
		let expired = false;
		let ended = false;
		return start.call(pulls, {
			...request,
			listener: {
				expired: (pull, reason) => {
					if (expired || ended)
						verdict.broken(
							"pull",
							`${instance.name}: expired twice or at its end`,
						);
					expired = true;
					listener.expired(pull, reason);
				},
				abandoned: (pull) => listener.abandoned(pull),
				finished: (pull, completed, reason) => {
					if (ended) verdict.broken("pull", `${instance.name}: finished twice`);
					ended = true;
					if (expired && completed.size > 0)
						verdict.broken(
							"revival",
							`${instance.name}: success after its deadline`,
						);
					checkMoved(instance, verdict, pull.handle, completed, expired);
					listener.finished(pull, completed, reason);
				},
			},
		});
	};
}
/** What a move wrote here and what was announced here is here: its source has let it go. */
function checkMoved(
	instance: SimInstance,
	verdict: Verdict,
	handle: Parameters<MemoryBook["asks"]["get"]>[0] | undefined,
	completed: ReadonlySet<number>,
	expired: boolean,
): void {
	const ask = handle === undefined ? undefined : instance.book.asks.get(handle);
	if (ask === undefined || !ask.move || expired || instance.state !== "up")
		return;
	for (const live of ask.writes)
		if (live.done && live.plainlyNotified)
			for (const index of live.indices)
				if (!completed.has(index))
					verdict.broken(
						"move",
						`${instance.name}: a moved block arrived and was dropped`,
					);
}
