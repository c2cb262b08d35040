/** Order and loss on one publisher's stream, without sockets. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
	type SequencedBatch,
	Sequencer,
	type SequencerLimits,
} from "../src/events/sequencer.js";

const LIMITS: SequencerLimits = {
	canReplay: true,
	maxWaiting: 100,
	maxWaitingBytes: 10_000,
};

/** A sequencer whose effects are written down. */
function rig(limits: Partial<SequencerLimits> = {}) {
	const log: string[] = [];
	const sequencer = new Sequencer<string>(
		{
			apply: (batch) => log.push(batch),
			clear: (reason) => log.push(`clear ${reason}`),
			requestReplay: (seq) => log.push(`replay ${seq}`),
			cancelReplay: () => log.push("cancel"),
		},
		{ ...LIMITS, ...limits },
	);
	const item = (seq: number, ts = seq): SequencedBatch<string> => ({
		seq,
		ts,
		bytes: 100,
		batch: `b${seq}`,
	});
	return {
		log,
		sequencer,
		live: (...seqs: number[]) => {
			for (const seq of seqs) sequencer.live(item(seq));
		},
		replayed: (...seqs: number[]) => {
			for (const seq of seqs) sequencer.replayed(item(seq));
		},
		item,
	};
}

describe("the order of a publisher's batches", () => {
	it("is that of the numbers, from the first one on", () => {
		const { live, log } = rig();
		live(0, 1, 2);
		expect(log).toEqual(["b0", "b1", "b2"]);
	});

	it("holds live batches back until the replay has brought what came before", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 3, 4);
		expect(log).toEqual(["b0", "replay 0"]);
		replayed(0, 1, 2, 3);
		live(5);
		sequencer.replayEnded();
		live(6);
		expect(log).toEqual(["b0", "replay 0", "b1", "b2", "b3", "b4", "b5", "b6"]);
		expect(sequencer.stats()).toMatchObject({ gaps: 1, replays: 1 });
	});

	it("clears once when the replay begins too late, and keeps what it brought", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 9);
		replayed(6, 7, 8, 9);
		sequencer.replayEnded();
		expect(log).toEqual([
			"b0",
			"replay 0",
			"clear gap_not_replayable",
			"b6",
			"b7",
			"b8",
			"b9",
		]);
	});

	it("does not ask for the same missing number twice", () => {
		const { live, sequencer, log } = rig();
		live(0, 2);
		sequencer.replayEnded();
		live(3);
		expect(log).toEqual([
			"b0",
			"replay 0",
			"clear gap_not_replayable",
			"b2",
			"b3",
		]);
		expect(sequencer.state).toBe("live");
	});

	it("asks again for a second gap among the batches that waited", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 2, 5);
		replayed(0, 1);
		sequencer.replayEnded();
		replayed(2, 3, 4, 5);
		sequencer.replayEnded();
		expect(log).toEqual([
			"b0",
			"replay 0",
			"b1",
			"b2",
			"replay 2",
			"b3",
			"b4",
			"b5",
		]);
	});

	it("needs no clear where nothing was held: a late subscriber takes what it can get", () => {
		const { live, replayed, sequencer, log } = rig();
		live(100);
		replayed(90);
		for (let seq = 91; seq < 100; seq++) replayed(seq);
		sequencer.replayEnded();
		expect(log[0]).toBe("replay 0");
		expect(log).not.toContain("clear gap_not_replayable");
		expect(log.slice(1)).toEqual(
			Array.from({ length: 11 }, (_, i) => `b${90 + i}`),
		);
	});

	it("ignores leftovers, and replay answers that nobody waits for", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 1, 2, 1, 0);
		replayed(3);
		sequencer.replayEnded();
		live(3);
		expect(log).toEqual(["b0", "b1", "b2", "b3"]);
		expect(sequencer.stats().stale).toBe(2);
	});

	it("takes a lower number with a later time for a restart", () => {
		const { live, sequencer, item, log } = rig();
		live(0, 1, 2);
		sequencer.live(item(0, 50));
		sequencer.live(item(1, 51));
		expect(log.slice(3)).toEqual(["clear restarted", "b0", "b1"]);
	});

	it("recognizes a restarted publisher that has counted further, by its last batch in the replay", () => {
		const { live, sequencer, item, log } = rig();
		live(0, 1);
		for (const seq of [5, 6]) sequencer.live(item(seq, 100 + seq));
		sequencer.replayed(item(1, 101));
		for (const seq of [0, 1, 2, 3, 4, 5, 6])
			sequencer.replayed(item(seq, 100 + seq));
		sequencer.replayEnded();
		expect(log.slice(2)).toEqual([
			"replay 1",
			"clear restarted",
			"replay 0",
			"b0",
			"b1",
			"b2",
			"b3",
			"b4",
			"b5",
			"b6",
		]);
	});

	it("trusts no continuation whose beginning the publisher no longer has", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 1, 3);
		replayed(2, 3);
		sequencer.replayEnded();
		expect(log.slice(2)).toEqual([
			"replay 1",
			"clear gap_not_replayable",
			"b2",
			"b3",
		]);
	});

	it("checks the stream after a broken connection even when no number is missing", () => {
		const same = rig();
		same.live(0, 1);
		same.sequencer.interrupted();
		same.live(2);
		same.replayed(1, 2);
		same.sequencer.replayEnded();
		same.live(3);
		expect(same.log).toEqual(["b0", "b1", "replay 1", "b2", "b3"]);
		const other = rig();
		other.live(0, 1);
		other.sequencer.interrupted();
		other.sequencer.live(other.item(2, 102));
		other.sequencer.replayed(other.item(1, 101));
		for (const seq of [0, 1, 2])
			other.sequencer.replayed(other.item(seq, 100 + seq));
		other.sequencer.replayEnded();
		expect(other.log).toEqual([
			"b0",
			"b1",
			"replay 1",
			"clear restarted",
			"replay 0",
			"b0",
			"b1",
			"b2",
		]);
	});

	it("needs no second replay where the first batch of all shows the restart", () => {
		const { live, sequencer, item, log } = rig();
		live(0);
		sequencer.interrupted();
		sequencer.live(item(1, -9));
		for (const seq of [0, 1]) sequencer.replayed(item(seq, seq - 10));
		sequencer.replayEnded();
		expect(log).toEqual(["b0", "replay 0", "clear restarted", "b0", "b1"]);
	});

	it("takes any lower number after a broken connection for a restart, whatever the clock says", () => {
		for (const canReplay of [true, false]) {
			const { live, sequencer, item, log } = rig({ canReplay });
			live(0, 1, 2, 3, 4);
			sequencer.interrupted();
			for (const seq of [0, 1]) sequencer.live(item(seq, seq - 100));
			expect(log.slice(5)).toEqual(["clear restarted", "b0", "b1"]);
			expect(sequencer.stats().stale).toBe(0);
		}
	});

	it("asks a restarted publisher whose clock is behind for what was missed of it", () => {
		const { live, sequencer, item, log } = rig();
		live(0, 1, 2, 3, 4);
		sequencer.interrupted();
		sequencer.live(item(2, -98));
		for (const seq of [0, 1, 2]) sequencer.replayed(item(seq, seq - 100));
		sequencer.replayEnded();
		sequencer.live(item(3, -97));
		expect(log.slice(5)).toEqual([
			"clear restarted",
			"replay 0",
			"b0",
			"b1",
			"b2",
			"b3",
		]);
	});

	it("takes lower numbers for leftovers again once the stream was proved to be the same", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 1, 2);
		sequencer.interrupted();
		live(3);
		replayed(2, 3, 4);
		sequencer.replayEnded();
		live(4, 5);
		expect(log).toEqual(["b0", "b1", "b2", "replay 2", "b3", "b4", "b5"]);
		expect(sequencer.stats().stale).toBe(1);
	});

	it("clears after a broken connection where nothing proves that the stream is the same", () => {
		const { live, sequencer, log } = rig({ canReplay: false });
		live(0, 1);
		sequencer.interrupted();
		live(2, 3);
		expect(log).toEqual(["b0", "b1", "clear gap_not_replayable", "b2", "b3"]);
	});

	it("takes a run of lower numbers for a restart where the clock went back", () => {
		const { live, sequencer, item, log } = rig();
		for (let seq = 0; seq < 30; seq++) live(seq);
		for (let seq = 0; seq < 10; seq++) sequencer.live(item(seq, -100 + seq));
		expect(log).toContain("clear restarted");
		expect(log[log.length - 1]).toBe("replay 0");
	});

	it("abandons a recovery when its publisher restarts", () => {
		const { live, sequencer, item, log } = rig();
		live(0, 5);
		sequencer.live(item(0, 99));
		expect(log).toEqual(["b0", "replay 0", "cancel", "clear restarted", "b0"]);
	});

	it("bounds what waits: on overflow it clears and goes on with the newest", () => {
		for (const limits of [{ maxWaiting: 3 }, { maxWaitingBytes: 350 }]) {
			const { live, sequencer, log } = rig(limits);
			live(0, 2, 3, 4, 5, 6);
			expect(log).toEqual([
				"b0",
				"replay 0",
				"cancel",
				"clear overflow",
				"b5",
				"b6",
			]);
			expect(sequencer.state).toBe("live");
		}
	});

	it("is not led astray by a replay that jumps ahead", () => {
		const { live, replayed, sequencer, log } = rig();
		live(0, 2);
		replayed(0);
		replayed(2 ** 50);
		replayed(1);
		sequencer.replayEnded();
		expect(log).toEqual(["b0", "replay 0", "b1", "b2"]);
	});

	it("clears at each gap when there is no replay to ask for", () => {
		const { live, log } = rig({ canReplay: false });
		live(0, 2, 3, 7);
		expect(log).toEqual([
			"b0",
			"clear gap_not_replayable",
			"b2",
			"b3",
			"clear gap_not_replayable",
			"b7",
		]);
	});
});

/** One batch of the model: a block appears or goes. */
interface Change {
	readonly block: number;
	readonly add: boolean;
}

describe("whatever is lost, delayed and replayed", () => {
	it("never holds a block that the publisher no longer has, and all of them when nothing was cleared", () => {
		const step = fc.record({
			block: fc.integer({ min: 0, max: 4 }),
			add: fc.boolean(),
			lost: fc.boolean(),
			/** What the replay socket does next. */
			replay: fc.constantFrom("wait", "wait", "one", "rest", "end"),
			restart: fc.integer({ min: 0, max: 30 }),
		});
		fc.assert(
			fc.property(
				fc.array(step, { maxLength: 80 }),
				fc.integer({ min: 1, max: 12 }),
				/** Whether the clock of a restarted publisher is behind. */
				fc.boolean(),
				(steps, kept, behind) => {
					const truth = new Set<number>();
					const held = new Set<number>();
					let history: SequencedBatch<Change>[] = [];
					let answers: SequencedBatch<Change>[] | undefined;
					let cleared = false;
					let cutShort = false;
					let asks = 0;
					const sequencer = new Sequencer<Change>(
						{
							apply: ({ block, add }) =>
								add ? held.add(block) : held.delete(block),
							clear: () => {
								held.clear();
								cleared = true;
							},
							requestReplay: (from) => {
								asks++;
								answers = history.slice(-kept).filter(({ seq }) => seq >= from);
							},
							cancelReplay: () => {
								answers = undefined;
							},
						},
						LIMITS,
					);
					const answer = (count: number) => {
						while (count-- > 0 && answers !== undefined && answers.length > 0)
							sequencer.replayed(answers.shift() as SequencedBatch<Change>);
					};
					const end = () => {
						if (answers === undefined) return;
						if (answers.length > 0) cutShort = true;
						answers = undefined;
						sequencer.replayEnded();
					};
					let clock = 0;
					for (const { block, add, lost, replay, restart } of steps) {
						if (restart === 30) {
							history = [];
							truth.clear();
							if (behind) clock -= 1000;
							sequencer.interrupted();
						}
						const seq = history.length;
						const change = { block, add };
						if (add) truth.add(block);
						else truth.delete(block);
						const item = { seq, ts: ++clock, bytes: 1, batch: change };
						history.push(item);
						if (!lost) sequencer.live(item);
						if (replay === "one") answer(1);
						if (replay === "rest") answer(Number.POSITIVE_INFINITY);
						if (replay === "end") end();
					}
					// A last batch that arrives, and the replays it may need, settle the stream.
					const last = {
						seq: history.length,
						ts: ++clock,
						bytes: 1,
						batch: { block: 99, add: true },
					};
					truth.add(99);
					history.push(last);
					sequencer.live(last);
					while (answers !== undefined) {
						answer(Number.POSITIVE_INFINITY);
						end();
					}
					expect(sequencer.state).toBe("live");
					for (const block of held) expect(truth.has(block)).toBe(true);
					expect(held.has(99)).toBe(true);
					if (!cleared && !cutShort && history.length <= kept)
						expect([...held].sort()).toEqual([...truth].sort());
					expect(asks).toBeLessThanOrEqual(steps.length + 2);
				},
			),
			{ numRuns: 5000 },
		);
	});
});
