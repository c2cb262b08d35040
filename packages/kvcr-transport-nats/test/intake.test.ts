/** What comes in while somebody floods: everybody else's messages, once each and in order. */
import { ManualClock } from "kvcr-core/testing";
import { describe, expect, it } from "vitest";
import { Intake } from "../src/intake.js";
import { SubjectSpace } from "../src/subjects.js";
import { ScriptedServer } from "./support/scripted-server.js";

const RUN = "r".repeat(16);
const FLOOD = 255;

function rig() {
	const clock = new ManualClock();
	const server = new ScriptedServer();
	const subjects = new SubjectSpace("kvcr", "test");
	const got: number[] = [];
	const heard: string[] = [];
	const dropped: string[] = [];
	const state = { wanted: (value: number) => value !== FLOOD };
	const intake = new Intake({
		subjects,
		peer: "me",
		clock,
		subscribe: server.subscribe,
		deliver: (payload) => {
			const value = payload[0] ?? -1;
			if (state.wanted(value)) got.push(value);
			else intake.slowDown();
		},
		dropped: (reason) => dropped.push(reason),
		heard: (sender) => heard.push(sender),
	});
	intake.open();
	const numbers = new Map<string, number>();
	/** A message of a peer over its own subject. */
	const send = (from: string, value: number, run = RUN) => {
		const number = (numbers.get(from) ?? 0) + 1;
		numbers.set(from, number);
		return server.publish(
			subjects.fromOf("me", from),
			Uint8Array.of(value),
			subjects.stampOf(from, run, number),
		);
	};
	/** `count` unwanted messages of a peer; returns how many the server handed over. */
	const flood = (from: string, count: number) => {
		let handed = 0;
		for (let n = 0; n < count; n++) handed += send(from, FLOOD);
		return handed;
	};
	/** The same of somebody nobody knows. */
	const floodOpenly = (count: number) => {
		let handed = 0;
		for (let n = 0; n < count; n++)
			handed += server.publish("kvcr.me", Uint8Array.of(FLOOD));
		return handed;
	};
	return {
		clock,
		server,
		subjects,
		got,
		heard,
		dropped,
		state,
		intake,
		send,
		flood,
		floodOpenly,
	};
}

describe("the intake", () => {
	it("takes messages over the subject for anybody, and over the sender's own", () => {
		const { server, send, got, heard, intake } = rig();
		server.publish("kvcr.me", Uint8Array.of(1));
		send("a", 2);
		expect(got).toEqual([1, 2]);
		expect(heard).toEqual(["a"]);
		expect(server.subjects).toEqual(["kvcr.me", "kvcr.me._from.*"]);
		expect(intake.narrow).toBe(false);
	});

	it("has the server keep out a flood over the subject for anybody, and leaves the others alone", () => {
		const { floodOpenly, send, got, intake, server } = rig();
		expect(floodOpenly(10_000)).toBe(64);
		expect(intake.narrow).toBe(true);
		expect(server.subjects).toEqual(["kvcr.me._from.*"]);
		for (let value = 0; value < 200; value++) send("a", value);
		expect(got).toHaveLength(200);
	});

	it("does nothing about a few unwanted messages", () => {
		const { floodOpenly, flood, clock, intake } = rig();
		for (let second = 0; second < 10; second++) {
			floodOpenly(63);
			flood("m", 63);
			clock.advance(1_000);
		}
		expect(intake.narrow).toBe(false);
	});

	it("has the server keep out one sender's flood, and hands over everybody else's messages once and in order", () => {
		const { flood, send, got, clock, server } = rig();
		send("a", 0);
		send("b", 100);
		expect(flood("m", 10_000)).toBe(64);
		expect(server.subjects).toContain("kvcr.me._from.a");
		expect(server.subjects).toContain("kvcr.me._from.b");
		expect(server.subjects).not.toContain("kvcr.me._from.m");
		for (let value = 1; value < 100; value++) {
			send("a", value);
			send("b", 100 + value);
			flood("m", 500);
			clock.advance(1);
		}
		const of = (low: number) => got.filter((v) => v >= low && v < low + 100);
		expect(of(0)).toEqual(Array.from({ length: 100 }, (_, n) => n));
		expect(of(100)).toEqual(Array.from({ length: 100 }, (_, n) => 100 + n));
	});

	it("takes at most a few messages at a time of the one that floods", () => {
		const { flood, send, clock, server } = rig();
		send("a", 0);
		flood("m", 100);
		let handed = 0;
		for (let ms = 0; ms < 1_000; ms++) {
			handed += flood("m", 100);
			clock.advance(1);
		}
		expect(handed).toBeLessThanOrEqual(800);
		expect(server.subjects).not.toContain("kvcr.me._from.m");
	});

	it("hands over once what comes over both subscriptions of a sender", () => {
		const { flood, send, got, clock } = rig();
		send("a", 0);
		flood("m", 64);
		clock.advance(10);
		// The narrow gate is ajar and matches, too.
		expect(send("a", 1)).toBe(2);
		expect(got).toEqual([0, 1]);
	});

	it("tells copies apart from messages also without numbers", () => {
		const { flood, server, got, clock } = rig();
		const plain = (value: number) =>
			server.publish("kvcr.me._from.a", Uint8Array.of(value));
		plain(0);
		flood("m", 64);
		clock.advance(10);
		expect(plain(1)).toBe(2);
		expect(got).toEqual([0, 1]);
	});

	it("loses nothing that was under way when a flood was noticed, and gives it out once", () => {
		const { flood, send, got, server } = rig();
		send("a", 0);
		server.hold = true;
		flood("m", 63);
		for (let value = 1; value < 10; value++) send("a", value);
		flood("m", 64);
		for (let value = 10; value < 20; value++) send("a", value);
		server.arrive();
		for (let value = 20; value < 30; value++) send("a", value);
		server.arrive();
		expect(got).toEqual(Array.from({ length: 30 }, (_, n) => n));
	});

	it("gives a newcomer a subscription of its own as soon as one message of it came through", () => {
		const { flood, send, got, clock, server } = rig();
		flood("m", 64);
		clock.advance(10);
		send("new", 1);
		expect(server.subjects).toContain("kvcr.me._from.new");
		flood("m", 1_000);
		for (let value = 2; value < 50; value++) send("new", value);
		expect(got).toEqual(Array.from({ length: 49 }, (_, n) => n + 1));
	});

	it("takes back the subscriptions when the flood is over, and serves all as before", () => {
		const { flood, send, got, clock, server, intake } = rig();
		send("a", 0);
		flood("m", 64);
		send("a", 1);
		clock.advance(6_000);
		expect(server.subjects).toEqual(["kvcr.me", "kvcr.me._from.*"]);
		expect(intake.served).toBe(0);
		send("a", 2);
		send("m", 3);
		expect(got).toEqual([0, 1, 2, 3]);
	});

	it("believes nobody's word for a sender where the server does not vouch for it", () => {
		const { server, subjects, send, got } = rig();
		send("a", 1);
		// A forger that even knows the run: it cannot use up the numbers to come.
		server.publish(
			"kvcr.me",
			Uint8Array.of(9),
			subjects.stampOf("a", RUN, 1_000_000),
		);
		send("a", 2);
		expect(got).toEqual([1, 9, 2]);
	});

	it("drops what a sender repeated over the subject for anybody although it had come", () => {
		const { server, subjects, send, got } = rig();
		send("a", 1);
		send("a", 2);
		server.publish("kvcr.me", Uint8Array.of(2), subjects.stampOf("a", RUN, 2));
		server.publish("kvcr.me", Uint8Array.of(3), subjects.stampOf("a", RUN, 3));
		expect(got).toEqual([1, 2, 3]);
	});

	it("takes a sender that started anew, whose numbers begin again", () => {
		const { send, got, server, subjects } = rig();
		for (let value = 0; value < 5; value++) send("a", value);
		server.publish(
			subjects.fromOf("me", "a"),
			Uint8Array.of(50),
			subjects.stampOf("a", "s".repeat(16), 1),
		);
		expect(got).toEqual([0, 1, 2, 3, 4, 50]);
	});

	it("keeps no more senders than 4,096, under however many names somebody comes", () => {
		const { send, flood, intake, server } = rig();
		for (let n = 0; n < 5_000; n++) send(`n-${n}`, 1);
		flood("m", 64);
		expect(intake.served).toBeLessThanOrEqual(4_096);
		expect(server.subjects.length).toBeLessThanOrEqual(4_097);
	});

	it("keeps out a member's flood of one and the same number, which nobody else ever sees", () => {
		const { server, subjects, send, got, intake, dropped } = rig();
		send("a", 0);
		let handed = 0;
		for (let n = 0; n < 10_000; n++)
			handed += server.publish(
				subjects.fromOf("me", "m"),
				Uint8Array.of(1),
				subjects.stampOf("m", RUN, 1),
			);
		expect(got).toEqual([0, 1]);
		expect(handed).toBe(65);
		expect(dropped).toEqual(Array(64).fill("repeated"));
		expect(intake.narrow).toBe(true);
		expect(server.subjects).toContain("kvcr.me._from.a");
		expect(server.subjects).not.toContain("kvcr.me._from.m");
	});

	it("keeps out the same from a member with a subscription of its own", () => {
		const { flood, server, subjects, send, clock } = rig();
		for (const name of ["a", "n"]) send(name, 0);
		flood("m", 64);
		expect(server.subjects).toContain("kvcr.me._from.n");
		for (let n = 0; n < 1_000; n++)
			server.publish(
				subjects.fromOf("me", "n"),
				Uint8Array.of(1),
				subjects.stampOf("n", RUN, 1),
			);
		expect(server.subjects).not.toContain("kvcr.me._from.n");
		// What comes twice because there are two subscriptions is nobody's fault.
		for (let n = 0; n < 5_000; n++) {
			send("a", 1);
			clock.advance(1);
		}
		expect(server.log.filter((one) => one === "kvcr.me._from.a")).toHaveLength(
			1,
		);
	});

	it("keeps out a flood of repetitions over the subject for anybody, and takes as many as a sender may have to repeat", () => {
		const { server, subjects, send, got, intake, dropped } = rig();
		send("a", 1);
		const repeat = (count: number) => {
			for (let n = 0; n < count; n++)
				server.publish(
					"kvcr.me",
					Uint8Array.of(9),
					subjects.stampOf("a", RUN, 1),
				);
		};
		repeat(4_096);
		expect(intake.narrow).toBe(false);
		repeat(100_000);
		expect(intake.narrow).toBe(true);
		expect(dropped).toHaveLength(8_192);
		expect(got).toEqual([1]);
	});

	it("keeps out a flood under names that no peer can have", () => {
		for (const name of ["_x", "$x", "ä", "x".repeat(65)]) {
			const { server, send, got, intake, dropped } = rig();
			send("a", 1);
			let handed = 0;
			for (let n = 0; n < 10_000; n++)
				handed += server.publish(`kvcr.me._from.${name}`);
			expect(handed).toBe(64);
			expect(dropped).toEqual(Array(64).fill("bad_sender"));
			expect(intake.narrow).toBe(true);
			send("a", 2);
			expect(got).toEqual([1, 2]);
		}
	});

	it("subscribes to nothing more when it is closed, whatever is still under way", () => {
		const { send, flood, intake, server } = rig();
		send("a", 1);
		server.hold = true;
		send("b", 2);
		server.hold = false;
		flood("m", 64);
		intake.close();
		server.arrive();
		expect(server.subjects).toEqual([]);
	});

	it("leaves nothing behind when it is closed in the middle of a flood", () => {
		const { send, flood, floodOpenly, intake, server, clock } = rig();
		send("a", 1);
		flood("m", 64);
		floodOpenly(64);
		clock.advance(12);
		intake.close();
		expect(server.subjects).toEqual([]);
		expect(clock.pending).toBe(0);
	});
});
