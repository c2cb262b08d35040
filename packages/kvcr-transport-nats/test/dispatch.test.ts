/** Where messages go: to the sender's own subject, and after one came back, to the one for anybody. */
import { ManualClock } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import { Dispatch } from "../src/dispatch.js";
import { SubjectSpace } from "../src/subjects.js";

const subjects = new SubjectSpace("kvcr", "test");

function rig() {
	const clock = new ManualClock();
	const out: { subject: string; value: number; stamp: string }[] = [];
	const state = { room: true };
	const dispatch = new Dispatch({
		subjects,
		peer: "me",
		clock,
		offer: (subject, payload, stamp) => {
			if (state.room) out.push({ subject, value: payload[0] ?? -1, stamp });
			return state.room;
		},
	});
	return {
		clock,
		out,
		state,
		dispatch,
		send: (peer: string, value: number, bytes = 1) =>
			dispatch.send(peer, new Uint8Array(bytes).fill(value)),
		/** What went out so far, as `peer:value`, with `!` for what went to the subject for anybody. */
		went: () =>
			out.map(({ subject, value }) => {
				const [, peer, from] = subject.split(".");
				return `${peer}${from === undefined ? "!" : ""}:${value}`;
			}),
	};
}

describe("the dispatch", () => {
	it("sends over the subject that is for this peer alone, and numbers what it sends", () => {
		const { send, out } = rig();
		send("a", 1);
		send("a", 2);
		expect(out.map(({ subject }) => subject)).toEqual([
			"kvcr.a._from.me",
			"kvcr.a._from.me",
		]);
		const stamps = out.map(({ stamp }) => subjects.parseStamp("me", stamp));
		expect(stamps[0]?.run).toMatch(/^[A-Za-z0-9_-]{16}$/);
		expect(stamps[1]?.run).toBe(stamps[0]?.run);
		expect(stamps.map((stamp) => stamp?.number)).toEqual([1, 2]);
	});

	it("repeats what came back, and what went after it, in order, under its number, over the subject for anybody", () => {
		const { send, went, out, dispatch } = rig();
		for (const value of [1, 2, 3]) send("a", value);
		send("b", 9);
		dispatch.returned(out[1]?.stamp ?? "");
		// What the server says of the others changes nothing any more.
		dispatch.returned(out[1]?.stamp ?? "");
		dispatch.returned(out[2]?.stamp ?? "");
		send("a", 4);
		expect(went()).toEqual([
			...["a:1", "a:2", "a:3", "b:9"],
			...["a!:2", "a!:3", "a!:4"],
		]);
		expect(out[4]?.stamp).toBe(out[1]?.stamp);
		expect(out[5]?.stamp).toBe(out[2]?.stamp);
	});

	it("goes back to its own subject when that peer was heard over such a one, or after a minute", () => {
		const { send, went, out, dispatch, clock } = rig();
		send("a", 1);
		dispatch.returned(out[0]?.stamp ?? "");
		dispatch.heard("b");
		send("a", 2);
		dispatch.heard("a");
		send("a", 3);
		dispatch.returned(out.at(-1)?.stamp ?? "");
		clock.advance(59_999);
		send("a", 4);
		clock.advance(1);
		send("a", 5);
		expect(went()).toEqual([
			...["a:1", "a!:1", "a!:2", "a:3", "a!:3", "a!:4", "a:5"],
		]);
	});

	it("does not believe that something came back from one who only knows its own messages", () => {
		const { send, went, out, dispatch } = rig();
		send("mallory", 1);
		send("a", 2);
		const own = subjects.parseStamp("me", out[0]?.stamp ?? "");
		dispatch.returned(subjects.stampOf("me", own?.run ?? "", 2));
		dispatch.returned("kvcr.me._sent.nonsense");
		dispatch.returned("");
		expect(went()).toEqual(["mallory:1", "a:2"]);
	});

	it("is another run towards each peer, and after each start", () => {
		const runs = [rig(), rig()].flatMap(({ send, out }) => {
			send("a", 1);
			send("b", 1);
			return out.map(({ stamp }) => subjects.parseStamp("me", stamp)?.run);
		});
		expect(new Set(runs).size).toBe(4);
	});

	it("keeps the last 4,096 messages, and no more than 4 MiB of them", () => {
		const { send, went, out, dispatch } = rig();
		for (let n = 0; n < 5_000; n++) send("a", n % 200);
		dispatch.returned(out[903]?.stamp ?? "");
		expect(went()).toHaveLength(5_000);
		dispatch.returned(out[904]?.stamp ?? "");
		expect(went()).toHaveLength(5_000 + 4_096);

		const large = rig();
		for (let n = 0; n < 8; n++) large.send("a", n, 1 << 20);
		large.dispatch.returned(large.out[3]?.stamp ?? "");
		expect(large.went()).toHaveLength(8);
		large.dispatch.returned(large.out[4]?.stamp ?? "");
		expect(large.went().slice(8)).toEqual(["a!:4", "a!:5", "a!:6", "a!:7"]);
	});

	it("keeps nothing of what was refused for lack of room", () => {
		const { send, went, out, dispatch, state } = rig();
		state.room = false;
		expect(send("a", 1)).toBe(false);
		state.room = true;
		expect(send("a", 2)).toBe(true);
		dispatch.returned(out[0]?.stamp ?? "");
		expect(went()).toEqual(["a:2", "a!:2"]);
	});

	it("does without subjects of single senders while the server forbids them, and for good where it returns nothing", () => {
		const { send, went, out, dispatch, clock } = rig();
		send("a", 1);
		dispatch.forbidden();
		dispatch.returned(out[0]?.stamp ?? "");
		send("a", 2);
		clock.advance(60_000);
		send("a", 3);
		dispatch.withoutReturns();
		clock.advance(1_000_000);
		send("a", 4);
		expect(went()).toEqual(["a:1", "a!:2", "a:3", "a!:4"]);
	});
});
