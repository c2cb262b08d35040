import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ParkedRemotes } from "../src/parked-remotes.js";

const peer = (name: string, metadata = name) => ({
	name,
	metadata: Buffer.from(metadata),
});

describe("peers that were removed", () => {
	let unloaded: string[];
	let parked: ParkedRemotes<ReturnType<typeof peer>>;
	beforeEach(() => {
		vi.useFakeTimers();
		unloaded = [];
		parked = new ParkedRemotes(({ name }) => unloaded.push(name));
	});
	afterEach(() => {
		parked.close();
		expect(vi.getTimerCount()).toBe(0);
		vi.useRealTimers();
	});

	it("are taken up again once, if they come back as they were", () => {
		const one = peer("a");
		parked.park(one);
		expect(parked.take("b", Buffer.from("b"))).toBeUndefined();
		expect(parked.take("a", Buffer.from("a"))).toBe(one);
		expect(parked.take("a", Buffer.from("a"))).toBeUndefined();
		expect(unloaded).toEqual([]);
	});

	it("are unloaded when another one comes in their name", () => {
		parked.park(peer("a"));
		expect(parked.take("a", Buffer.from("other"))).toBeUndefined();
		expect(unloaded).toEqual(["a"]);
	});

	it("are unloaded after a minute, each by its own time", () => {
		parked.park(peer("a"));
		vi.advanceTimersByTime(40_000);
		parked.park(peer("b"));
		vi.advanceTimersByTime(19_000);
		expect(unloaded).toEqual([]);
		vi.advanceTimersByTime(2_000);
		expect(unloaded).toEqual(["a"]);
		vi.advanceTimersByTime(40_000);
		expect(unloaded).toEqual(["a", "b"]);
	});

	it("are kept up to a number, the latest ones", () => {
		for (let i = 0; i < 66; i += 1) parked.park(peer(`p${i}`));
		expect(unloaded).toEqual(["p0", "p1"]);
	});
});
