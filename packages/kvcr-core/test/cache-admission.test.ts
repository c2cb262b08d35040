import { describe, expect, it } from "vitest";
import { PolicyError, ReentrantPolicyError } from "../src/cache/index.js";
import { InvalidArgumentError } from "../src/ports/index.js";
import { kinds, reserved, rig, ScriptedPolicy } from "./cache-kit.js";

describe("slots of a block", () => {
	it("are taken for all pieces or for none", () => {
		const { cache, admit } = rig({ kv: 3, idx: 1 });
		const layout = ["kv", "kv:b", "idx"];
		const outcomes = admit("ab", layout);
		expect(kinds(outcomes)).toBe("reserved,no_capacity");
		expect(outcomes[1]).toEqual({
			kind: "no_capacity",
			missing: new Map([
				["kv", 1],
				["idx", 1],
			]),
		});
		expect(
			cache.pieces(reserved(outcomes[0])).map(({ pool, slot }) => [pool, slot]),
		).toEqual([
			["kv", 0],
			["kv", 1],
			["idx", 0],
		]);
		expect(cache.stats().pools).toMatchObject([
			{ free: 1, claimed: 2 },
			{ free: 0, claimed: 1 },
		]);
		cache.assertConsistent();
	});

	it("come from the free list before anything is evicted", () => {
		const { place, known, cache } = rig({ kv: 3 });
		place("abc");
		expect(known()).toBe("abc");
		place("d");
		expect(known()).toBe("bcd");
		cache.assertConsistent();
	});

	it("go to the next block of the batch when one does not fit", () => {
		const { cache } = rig({ kv: 2 });
		const outcomes = cache.admit(
			[
				{ keyText: "a", layout: ["kv", "kv", "kv"] },
				{ keyText: "b", layout: ["kv"] },
			],
			"fetch",
		);
		expect(kinds(outcomes)).toBe("too_large,reserved");
	});

	it("are views on the memory of the pool", () => {
		const { cache, place } = rig({ kv: 2 });
		const [a, b] = place("ab") as [never, never];
		cache.bytesOf(a)[0]?.fill(1);
		expect(cache.bytesOf(b)[0]).toEqual(new Uint8Array(8));
		expect(cache.bytesOf(a)[0]).toEqual(new Uint8Array(8).fill(1));
	});
});

describe("eviction", () => {
	it("takes nothing for a block that cannot be admitted anyway", () => {
		const { cache, place, admit, known } = rig({ kv: 2, idx: 1 });
		place("a", ["kv"]);
		place("b", ["kv"]);
		const busy = reserved(admit("c", ["idx"])[0]);
		expect(kinds(admit("d", ["kv", "idx"]))).toBe("no_capacity");
		expect(known()).toBe("abc");
		cache.failFill(busy);
		expect(kinds(admit("d", ["kv", "idx"]))).toBe("reserved");
		expect(known()).toBe("bd");
	});

	it("passes over blocks without slots in the short pool and leaves them in order", () => {
		const policy = new ScriptedPolicy();
		const { place, admit, known } = rig({ kv: 2, idx: 2 }, { policy });
		place("a", ["kv"]);
		place("b", ["idx"]);
		place("c", ["kv"]);
		place("d", ["idx"]);
		policy.calls.length = 0;
		admit("e", ["idx"]);
		expect(policy.calls).toEqual(["ingest? e", "evict? b"]);
		expect(known()).toBe("acde");
		admit("f", ["kv"]);
		expect(known()).toBe("cdef");
	});

	it("walks the queue once and restores what the policy keeps, in order", () => {
		const policy = new ScriptedPolicy();
		const { place, admit, known, cache } = rig({ kv: 4 }, { policy });
		place("abcd");
		policy.calls.length = 0;
		policy.eviction = ({ key }) =>
			key[0] === 97 || key[0] === 98 ? "keep" : "evict";
		expect(kinds(admit("efg"))).toBe("reserved,reserved,no_capacity");
		expect(policy.calls.filter((call) => call.startsWith("evict?"))).toEqual([
			"evict? a",
			"evict? b",
			"evict? c",
			"evict? d",
		]);
		expect(known()).toBe("abef");
		policy.calls.length = 0;
		policy.eviction = () => "evict";
		admit("h");
		expect(policy.calls).toContain("evict? a");
		expect(known()).toBe("befh");
		cache.assertConsistent();
	});

	it("never takes what the same batch needs", () => {
		const { place, admit, known } = rig({ kv: 3 });
		place("abc");
		const outcomes = admit("xayb", ["kv"], ["c"]);
		expect(kinds(outcomes)).toBe("no_capacity,known,no_capacity,known");
		expect(known()).toBe("abc");
		expect(kinds(admit("xa", ["kv"], ["c"]))).toBe("reserved,known");
		expect(known()).toBe("acx");
	});

	it("never takes a claimed block", () => {
		const { cache, place, admit, at, known } = rig({ kv: 2 });
		place("ab");
		cache.claim(at("a"));
		expect(kinds(admit("cd"))).toBe("reserved,no_capacity");
		expect(known()).toBe("ac");
	});

	it("follows the order of last access, touches included", () => {
		const { cache, clock, place, admit, at, known } = rig({ kv: 3 });
		place("abc");
		cache.touch(at("a"));
		clock.advance(1);
		cache.claim(at("b"));
		cache.unclaim(at("b"));
		admit("d");
		expect(known()).toBe("abd");
		admit("e");
		expect(known()).toBe("bde");
	});
});

describe("keys that are known", () => {
	it("are refused in every state, and nothing changes", () => {
		const { cache, admit, place, at } = rig({ kv: 4 });
		place("a");
		const filling = reserved(admit("b")[0]);
		cache.discardFill(reserved(admit("c")[0]));
		const before = cache.stats();
		expect(kinds(admit("abc"))).toBe("known,known,known");
		expect(admit("b")[0]).toEqual({ kind: "known", residency: filling });
		expect(cache.stats()).toEqual(before);
		expect(at("c").state).toBe("DISCARDING");
	});

	it("are reserved once when a batch names them twice", () => {
		const { cache, admit } = rig({ kv: 4 });
		const outcomes = admit("aba");
		expect(kinds(outcomes)).toBe("reserved,reserved,known");
		expect(cache.stats().filling).toBe(2);
		expect(kinds(rig({ kv: 1 }).admit("xaa"))).toBe(
			"reserved,no_capacity,no_capacity",
		);
	});
});

describe("bad layouts", () => {
	it.each([
		[
			"an unknown pool",
			["other"],
			/batch\[1\]\.layout\[0\] must be .*"kv".* got "other"/,
		],
		["no piece", [], /batch\[1\]\.layout must be an array/],
	])("with %s throw before anything changes", (_what, layout, message) => {
		const policy = new ScriptedPolicy();
		const { cache, place } = rig({ kv: 1 }, { policy });
		place("a");
		policy.calls.length = 0;
		const batch = [
			{ keyText: "b", layout: ["kv"] },
			{ keyText: "c", layout },
		];
		expect(() => cache.admit(batch, "deposit")).toThrow(InvalidArgumentError);
		expect(() => cache.admit(batch, "deposit")).toThrow(message);
		expect(policy.calls).toEqual([]);
		expect(cache.get("a")?.state).toBe("READY");
	});
});

describe("a policy", () => {
	it("declines single blocks of a batch", () => {
		const policy = new ScriptedPolicy();
		policy.ingest = ({ key }) => (key[0] === 98 ? "drop" : "keep");
		const { admit } = rig({ kv: 4 }, { policy });
		expect(kinds(admit("abc"))).toBe("reserved,dropped,reserved");
	});

	it("that throws at a block fails that block only", () => {
		const policy = new ScriptedPolicy();
		const boom = new Error("boom");
		policy.ingest = ({ key }) => {
			if (key[0] === 98) throw boom;
			return "keep";
		};
		const { cache, admit } = rig({ kv: 4 }, { policy });
		const outcomes = admit("abc");
		expect(kinds(outcomes)).toBe("reserved,policy_error,reserved");
		expect(outcomes[1]).toMatchObject({
			error: { code: "ERR_KVCR_POLICY", cause: boom },
		});
		cache.assertConsistent();
		expect(cache.stats().pools[0]).toMatchObject({ free: 2 });
	});

	it("that throws at an eviction fails the blocks that needed it, and leaks no slot", () => {
		const policy = new ScriptedPolicy();
		const { cache, place, admit, known } = rig({ kv: 3 }, { policy });
		place("ab");
		policy.eviction = () => {
			throw new Error("boom");
		};
		const outcomes = admit("cd");
		expect(kinds(outcomes)).toBe("reserved,policy_error");
		expect(known()).toBe("abc");
		cache.assertConsistent();
		policy.eviction = () => "evict";
		expect(kinds(admit("d"))).toBe("reserved");
		expect(known()).toBe("bcd");
	});

	it("that answers nonsense is treated like one that throws", () => {
		const policy = new ScriptedPolicy();
		policy.ingest = () => Promise.resolve("keep") as never;
		const [outcome] = rig({ kv: 1 }, { policy }).admit("a");
		expect(outcome?.kind === "policy_error" && outcome.error).toBeInstanceOf(
			PolicyError,
		);
	});

	it("without a usable score leaves the block evictable by its last access, and is reported once", () => {
		const policy = new ScriptedPolicy();
		const { place, known, log } = rig({ kv: 2 }, { policy });
		policy.score = () => 5000;
		place("b");
		policy.score = () => {
			throw new Error("boom");
		};
		place("a");
		policy.score = () => Number.NaN;
		place("c");
		expect(known()).toBe("bc");
		expect(log.warnings).toHaveLength(1);
		expect(log.warnings[0]?.fields).toMatchObject({
			method: "evictionScore",
		});
	});

	it("cannot change the cache from inside a decision", () => {
		const policy = new ScriptedPolicy();
		const { cache, place, admit, at, known } = rig({ kv: 2 }, { policy });
		place("ab");
		const a = at("a");
		for (const change of [
			() => cache.claim(a),
			() => cache.drop(a),
			() => cache.admit([], "deposit"),
		]) {
			policy.eviction = () => {
				change();
				return "evict";
			};
			const [outcome] = admit("c");
			expect(
				outcome?.kind === "policy_error" && outcome.error.cause,
			).toBeInstanceOf(ReentrantPolicyError);
		}
		expect(known()).toBe("ab");
		cache.assertConsistent();
	});

	it("is asked what to do about missing slots; one that throws means fail", () => {
		const policy = new ScriptedPolicy();
		const { cache } = rig({ kv: 1 }, { policy });
		const failure = {
			source: "fetch",
			missing: new Map([["kv", 1]]),
			failureCount: 1,
		} as const;
		expect(cache.decideRecovery(failure)).toBe("wait");
		policy.recovery = () => {
			throw new Error("boom");
		};
		expect(cache.decideRecovery(failure)).toBe("fail");
	});
});
