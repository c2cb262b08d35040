/** The asker's side: which replies count, when a resolution ends, and that every hash gets exactly one result. */
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import type { BlockKey, Incarnation, RouterHash } from "../src/ports/index.js";
import {
	decodeControlMessage,
	encodeControlMessage,
	type HashResult,
	MalformedHashesResolvedError,
	UNRESOLVED,
} from "../src/protocol/index.js";
import {
	HashResolver,
	MAX_REQUESTS_PER_ENDPOINT,
	type ResolutionResult,
	type ResolveHashesBody,
} from "../src/resolution/index.js";
import { ManualClock } from "../src/testing/manual-clock.js";

const source = "tcp://s:1";
const incarnation = "b".repeat(32) as Incarnation;
const h = (value: number | bigint) => BigInt(value) as RouterHash;
const range = (count: number, from = 0) =>
	Array.from({ length: count }, (_, i) => h(from + i));

interface Sent {
	readonly endpoint: string;
	readonly body: ResolveHashesBody;
}

let clock: ManualClock;
let sent: Sent[];
let ignored: string[];
let accepts: (sent: Sent) => boolean;
let resolver: HashResolver;

beforeEach(() => {
	clock = new ManualClock(1_000);
	sent = [];
	ignored = [];
	accepts = () => true;
	resolver = new HashResolver({
		clock,
		send: (endpoint, body) => {
			const message = { endpoint, body };
			sent.push(message);
			return accepts(message);
		},
		onIgnored: (reason) => ignored.push(reason),
	});
});

/** Starts a resolution and records what comes of it. */
function start(
	hashes: readonly RouterHash[],
	endpoint = source,
	timeoutMs = 500,
) {
	const results = new Map<RouterHash, ResolutionResult>();
	const outcome = {
		results,
		chunks: 0,
		done: 0,
		resolution: { cancel: () => {} },
	};
	outcome.resolution = resolver.resolve(
		endpoint,
		hashes,
		{
			timeoutMs,
			onChunk: (asked, answers) => {
				expect(asked.length).toBe(answers.length);
				outcome.chunks++;
				asked.forEach((hash, i) => {
					expect(results.has(hash)).toBe(false);
					results.set(hash, answers[i] as ResolutionResult);
				});
			},
		},
		() => {
			outcome.done++;
		},
	);
	return outcome;
}

const statuses = (outcome: { results: Map<RouterHash, ResolutionResult> }) =>
	[...outcome.results.values()].map((result) => result.status);

function reply(
	{ endpoint, body }: Sent,
	results: readonly HashResult[] = body.hashes.map(() => UNRESOLVED.not_found),
	from = endpoint,
): void {
	resolver.resolved({
		type: "hashes_resolved",
		header: {
			targetAgent: "s",
			senderIncarnation: incarnation,
			senderControlEndpoint: from,
		},
		resolutionId: body.resolutionId,
		results,
	});
}

const first = () => sent[0] as Sent;

describe("a resolution", () => {
	it("asks once and delivers the source's answers", () => {
		const outcome = start([h(1), h(2)]);
		expect(sent).toHaveLength(1);
		expect(first().body).toEqual({
			type: "resolve_hashes",
			resolutionId: first().body.resolutionId,
			hashes: [1n, 2n],
			remainingTimeoutMs: 500,
		});
		const resolved: HashResult = {
			status: "resolved",
			key: Uint8Array.of(1) as BlockKey,
			labels: ["kv"],
			sizes: [16],
		};
		reply(first(), [resolved, UNRESOLVED.ambiguous_hash]);
		expect(outcome.results.get(h(1))).toBe(resolved);
		expect(outcome.results.get(h(2))?.status).toBe("ambiguous_hash");
		expect(outcome.done).toBe(1);
		expect(clock.pending).toBe(0);
		expect(resolver.endpoints).toBe(0);
	});

	it("begins its IDs at random, within 63 bits", () => {
		const ids = new Set<bigint>();
		for (let i = 0; i < 20; i++) {
			const other = new HashResolver({
				clock,
				send: (_endpoint, body) => {
					ids.add(body.resolutionId);
					return true;
				},
			});
			other.resolve(
				source,
				[h(1)],
				{ timeoutMs: 1, onChunk: () => {} },
				() => {},
			);
		}
		expect(ids.size).toBe(20);
		for (const id of ids) expect(id >> 63n).toBe(0n);
	});

	it("ends at once for no hashes", () => {
		const outcome = start([]);
		expect(sent).toHaveLength(0);
		expect(clock.pending).toBe(0);
		expect(outcome.done).toBe(1);
	});
});

describe("replies", () => {
	it("from the wrong endpoint are ignored and counted; the right one still counts", () => {
		const outcome = start([h(1)]);
		reply(first(), undefined, "tcp://evil:1");
		expect(outcome.results.size).toBe(0);
		expect(ignored).toEqual(["wrong_endpoint"]);
		reply(first());
		expect(statuses(outcome)).toEqual(["not_found"]);
		expect(outcome.done).toBe(1);
	});

	it("that come twice are ignored and counted", () => {
		const outcome = start([h(1)]);
		reply(first());
		reply(first());
		expect(outcome.done).toBe(1);
		expect(outcome.chunks).toBe(1);
		expect(ignored).toEqual(["late_or_duplicate"]);
	});

	it("that come late revive nothing", () => {
		const outcome = start([h(1)]);
		clock.advance(500);
		reply(first());
		expect(statuses(outcome)).toEqual(["timeout"]);
		expect(outcome.done).toBe(1);
		expect(ignored).toEqual(["late_or_duplicate"]);
	});

	it("of an unknown ID are ignored and counted", () => {
		const outcome = start([h(1)]);
		const { body } = first();
		for (const id of [
			body.resolutionId + 1n,
			body.resolutionId - 1n,
			2n ** 64n - 1n,
		])
			reply({ endpoint: source, body: { ...body, resolutionId: id } });
		expect(ignored).toEqual(["unknown_id", "unknown_id", "unknown_id"]);
		expect(outcome.results.size).toBe(0);
	});

	it("of the wrong count fail the resolution at once", () => {
		const outcome = start([h(1), h(2)]);
		reply(first(), [UNRESOLVED.not_found]);
		expect(statuses(outcome)).toEqual(["lookup_failed", "lookup_failed"]);
		expect(outcome.done).toBe(1);
		expect(clock.pending).toBe(0);
	});

	it("that are malformed fail the resolution at once, if they are from the endpoint asked", () => {
		const outcome = start([h(1)]);
		const malformed = (endpoint: string) => {
			const bytes = encodeControlMessage({
				type: "hashes_resolved",
				header: {
					targetAgent: "s",
					senderIncarnation: incarnation,
					senderControlEndpoint: endpoint,
				},
				resolutionId: first().body.resolutionId,
				// An empty key.
				results: [
					{
						status: "resolved",
						key: new Uint8Array() as BlockKey,
						labels: ["kv"],
						sizes: [1],
					},
				],
			});
			try {
				decodeControlMessage(bytes);
			} catch (error) {
				if (error instanceof MalformedHashesResolvedError) return error;
			}
			return expect.unreachable();
		};
		resolver.malformed(malformed("tcp://evil:1"));
		expect(outcome.done).toBe(0);
		expect(ignored).toEqual(["wrong_endpoint"]);
		resolver.malformed(malformed(source));
		expect(statuses(outcome)).toEqual(["lookup_failed"]);
		expect(outcome.done).toBe(1);
	});
});

describe("deadlines", () => {
	it("end a resolution with timeout, and leave nothing behind", () => {
		const outcome = start(range(20_000));
		clock.advance(499);
		expect(outcome.done).toBe(0);
		clock.advance(1);
		expect(outcome.done).toBe(1);
		expect(outcome.results.size).toBe(20_000);
		expect(new Set(statuses(outcome))).toEqual(new Set(["timeout"]));
		expect(resolver.inFlight).toBe(0);
		expect(resolver.endpoints).toBe(0);
		expect(clock.pending).toBe(0);
	});

	it("are not extended by intermediate replies, and are told to the source as time left", () => {
		const outcome = start(range(1024 * 20));
		clock.advance(200);
		reply(first());
		expect(sent.at(-1)?.body.remainingTimeoutMs).toBe(300);
		clock.advance(300);
		expect(outcome.done).toBe(1);
		expect(
			statuses(outcome).filter((status) => status === "not_found"),
		).toHaveLength(1024);
		expect(outcome.results.size).toBe(1024 * 20);
	});

	it("of others at the same endpoint are their own", () => {
		const short = start([h(1)], source, 100);
		const long = start([h(2)], source, 200);
		clock.advance(100);
		expect(short.done).toBe(1);
		expect(long.done).toBe(0);
		reply(sent[1] as Sent);
		expect(statuses(long)).toEqual(["not_found"]);
	});
});

describe("a refused send", () => {
	it("is peer_unreachable for everything not answered", () => {
		const outcome = (() => {
			accepts = () => sent.length <= 2;
			return start(range(1024 * 4));
		})();
		expect(outcome.done).toBe(1);
		expect(new Set(statuses(outcome))).toEqual(new Set(["peer_unreachable"]));
		expect(outcome.results.size).toBe(1024 * 4);
		expect(clock.pending).toBe(0);
		reply(first());
		expect(ignored).toEqual(["late_or_duplicate"]);
	});
});

describe("a long list", () => {
	it("goes out in requests of 1,024 hashes, a bounded number at a time, and arrives in pieces", () => {
		const outcome = start(range(1024 * 20 + 5));
		expect(sent).toHaveLength(MAX_REQUESTS_PER_ENDPOINT);
		for (let i = 0; i < sent.length; i++) {
			expect(sent.length - i).toBeLessThanOrEqual(MAX_REQUESTS_PER_ENDPOINT);
			expect((sent[i] as Sent).body.hashes.length).toBeLessThanOrEqual(1024);
			reply(sent[i] as Sent);
		}
		expect(sent).toHaveLength(21);
		expect(outcome.chunks).toBe(21);
		expect(outcome.done).toBe(1);
		expect(outcome.results.size).toBe(1024 * 20 + 5);
	});

	it("lets short ones at the same endpoint take turns", () => {
		start(range(1024 * 100));
		const short = start([h(2n ** 60n)]);
		for (let i = 0; i < MAX_REQUESTS_PER_ENDPOINT + 1 && short.done === 0; i++)
			reply(sent[i] as Sent);
		const asked = sent.findIndex(({ body }) => body.hashes[0] === 2n ** 60n);
		expect(asked).toBeGreaterThan(0);
		expect(asked).toBeLessThan(MAX_REQUESTS_PER_ENDPOINT + 2);
	});

	it("to one endpoint holds up no other", () => {
		start(range(1024 * 100));
		const other = start([h(1)], "tcp://other:1");
		reply(sent.at(-1) as Sent);
		expect(other.done).toBe(1);
	});

	it("is asked for in smaller requests when a reply was full", () => {
		const labels = Array.from({ length: 64 }, (_, i) => `kv:layer-${i}`);
		const sizes = labels.map(() => 1 << 20);
		const resolved: HashResult = {
			status: "resolved",
			key: new Uint8Array(1000).fill(1) as BlockKey,
			labels,
			sizes,
		};
		const outcome = start(range(1024));
		// The source fits 300 results into its reply and fails the rest for want of space.
		reply(
			first(),
			first().body.hashes.map((_hash, i) =>
				i < 300 ? resolved : UNRESOLVED.lookup_failed,
			),
		);
		expect(outcome.done).toBe(0);
		for (let i = 1; i < sent.length; i++) {
			const request = sent[i] as Sent;
			expect(request.body.hashes.length).toBeLessThan(300);
			reply(
				request,
				request.body.hashes.map(() => resolved),
			);
		}
		expect(outcome.done).toBe(1);
		expect(outcome.results.size).toBe(1024);
		expect(new Set(statuses(outcome))).toEqual(new Set(["resolved"]));
	});

	it("does not ask again for failures that have another cause", () => {
		const outcome = start([h(1), h(2)]);
		const resolved: HashResult = {
			status: "resolved",
			key: Uint8Array.of(1) as BlockKey,
			labels: ["kv"],
			sizes: [1],
		};
		reply(first(), [resolved, UNRESOLVED.lookup_failed]);
		expect(sent).toHaveLength(1);
		expect(outcome.done).toBe(1);
		expect(statuses(outcome)).toEqual(["resolved", "lookup_failed"]);
	});
});

describe("closing", () => {
	it("ends every resolution with closed, and later ones at once", () => {
		const one = start(range(3000));
		const two = start([h(1)], "tcp://other:1");
		resolver.close();
		expect(new Set([...statuses(one), ...statuses(two)])).toEqual(
			new Set(["closed"]),
		);
		expect(one.results.size).toBe(3000);
		expect([one.done, two.done]).toEqual([1, 1]);
		expect(clock.pending).toBe(0);
		reply(first());
		expect(ignored).toEqual(["late_or_duplicate"]);
		const later = start([h(1)]);
		expect(statuses(later)).toEqual(["closed"]);
		expect(sent.filter(({ endpoint }) => endpoint === source)).toHaveLength(3);
		resolver.close();
		expect(one.done).toBe(1);
	});

	it("of one resolution leaves the others alone", () => {
		const one = start([h(1)]);
		const two = start([h(2)]);
		one.resolution.cancel();
		one.resolution.cancel();
		expect(statuses(one)).toEqual(["closed"]);
		expect(one.done).toBe(1);
		reply(sent[1] as Sent);
		expect(statuses(two)).toEqual(["not_found"]);
		expect(resolver.endpoints).toBe(0);
	});
});

describe("a channel that answers inside send", () => {
	it("is served without limit on depth or order", () => {
		accepts = (message) => {
			reply(message);
			return true;
		};
		const outcome = start(range(100_000));
		expect(outcome.done).toBe(1);
		expect(outcome.results.size).toBe(100_000);
		expect(clock.pending).toBe(0);
		expect(resolver.endpoints).toBe(0);
	});

	it("may be asked again from a listener", () => {
		accepts = (message) => {
			reply(message);
			return true;
		};
		let done = 0;
		resolver.resolve(
			source,
			[h(1)],
			{ timeoutMs: 1, onChunk: () => {} },
			() => {
				done++;
				resolver.resolve(
					source,
					[h(2)],
					{ timeoutMs: 1, onChunk: () => {} },
					() => done++,
				);
			},
		);
		expect(done).toBe(2);
		expect(resolver.endpoints).toBe(0);
	});
});

describe("under loss, duplication, delay and disorder", () => {
	it("every hash of every resolution gets exactly one result and nothing stays", () => {
		const event = fc.oneof(
			fc.record({
				kind: fc.constant("start" as const),
				count: fc.integer({ min: 1, max: 40 }),
				endpoint: fc.nat(2),
				timeoutMs: fc.integer({ min: 1, max: 50 }),
			}),
			fc.record({
				kind: fc.constant("reply" as const),
				which: fc.nat(),
				from: fc.nat(2),
				right: fc.boolean(),
				wrongCount: fc.boolean(),
			}),
			fc.record({ kind: fc.constant("advance" as const), ms: fc.nat(20) }),
			fc.record({ kind: fc.constant("refuse" as const), refuse: fc.boolean() }),
			fc.record({ kind: fc.constant("cancel" as const), which: fc.nat() }),
		);
		fc.assert(
			fc.property(fc.array(event, { maxLength: 60 }), (events) => {
				const time = new ManualClock();
				const messages: Sent[] = [];
				let refuse = false;
				const subject = new HashResolver({
					clock: time,
					hashesPerRequest: 4,
					send: (endpoint, body) => {
						if (refuse) return false;
						messages.push({ endpoint, body });
						return true;
					},
				});
				const started: {
					seen: Map<bigint, number>;
					count: number;
					done: number;
					cancel: () => void;
				}[] = [];
				for (const step of events) {
					if (step.kind === "start") {
						const record = {
							seen: new Map<bigint, number>(),
							count: step.count,
							done: 0,
							cancel: () => {},
						};
						started.push(record);
						record.cancel = subject.resolve(
							`e${step.endpoint}`,
							range(step.count),
							{
								timeoutMs: step.timeoutMs,
								onChunk: (hashes) => {
									expect(record.done).toBe(0);
									for (const hash of hashes)
										record.seen.set(hash, (record.seen.get(hash) ?? 0) + 1);
								},
							},
							() => record.done++,
						).cancel;
					} else if (step.kind === "reply" && messages.length > 0) {
						const { endpoint, body } = messages[
							step.which % messages.length
						] as Sent;
						subject.resolved({
							type: "hashes_resolved",
							header: {
								targetAgent: "s",
								senderIncarnation: incarnation,
								senderControlEndpoint: step.right ? endpoint : `e${step.from}`,
							},
							resolutionId: body.resolutionId,
							results: body.hashes
								.slice(step.wrongCount ? 1 : 0)
								.map(() => UNRESOLVED.not_found),
						});
					} else if (step.kind === "advance") time.advance(step.ms);
					else if (step.kind === "refuse") refuse = step.refuse;
					else if (step.kind === "cancel" && started.length > 0)
						started[step.which % started.length]?.cancel();
					expect(subject.inFlight).toBeLessThanOrEqual(
						3 * MAX_REQUESTS_PER_ENDPOINT,
					);
				}
				time.advance(100);
				for (const { seen, count, done } of started) {
					expect(done).toBe(1);
					expect(seen.size).toBe(count);
					expect(Math.max(...seen.values())).toBe(1);
				}
				expect([subject.inFlight, subject.endpoints, time.pending]).toEqual([
					0, 0, 0,
				]);
			}),
			{ numRuns: 2_000 },
		);
	});
});
