/** The source's answers to `resolve_hashes`: what the adapter says, what is resident, and nothing else touched. */
import { describe, expect, it, vi } from "vitest";
import {
	AmbiguousHashError,
	type BlockKey,
	HashNotFoundError,
	type Incarnation,
	type KeyAdapter,
	keyText,
	MAX_CONTROL_MESSAGE_BYTES,
	type RouterHash,
} from "../src/ports/index.js";
import {
	encodeControlMessage,
	type ResolveHashesMessage,
} from "../src/protocol/index.js";
import {
	HashResponder,
	type HashResponderOptions,
	type ResidentLayout,
} from "../src/resolution/index.js";

const self = "a".repeat(32) as Incarnation;
const other = "b".repeat(32) as Incarnation;
const h = (value: number | bigint) => BigInt(value) as RouterHash;
const key = (...bytes: number[]) => Uint8Array.from(bytes) as BlockKey;

function request(
	hashes: readonly RouterHash[],
	senderIncarnation = other,
): ResolveHashesMessage {
	return {
		type: "resolve_hashes",
		header: {
			targetAgent: "t",
			senderIncarnation,
			senderControlEndpoint: "tcp://t:1",
			sourceControlEndpoint: "tcp://s:1",
		},
		resolutionId: 77n,
		hashes,
		remainingTimeoutMs: 100,
	};
}

function responder(options: Partial<HashResponderOptions>): HashResponder {
	return new HashResponder({
		adapter: undefined,
		incarnation: self,
		residentLayout: () => undefined,
		...options,
	});
}

/** An adapter that only looks up. */
function lookup(
	decodeFromRouter: KeyAdapter["decodeFromRouter"],
	many?: KeyAdapter["decodeManyFromRouter"],
): KeyAdapter {
	return {
		encode: () => key(1),
		decode: () => h(1),
		...(decodeFromRouter && { decodeFromRouter }),
		...(many && { decodeManyFromRouter: many }),
	};
}

const statuses = (results: readonly { readonly status: string }[]) =>
	results.map((result) => result.status);

describe("adapter errors", () => {
	it("HashNotFoundError is not_found, AmbiguousHashError ambiguous_hash, anything else lookup_failed", () => {
		const errors: unknown[] = [];
		const adapter = lookup((hash) => {
			if (hash === 1n) throw new HashNotFoundError(hash);
			if (hash === 2n) throw new AmbiguousHashError(hash, 2);
			if (hash === 3n) throw new Error("index is gone");
			if (hash === 4n) throw undefined;
			return key(9);
		});
		const answer = responder({
			adapter,
			residentLayout: () => ({ labels: ["kv"], sizes: [16] }),
			onLookupError: (error) => errors.push(error),
		}).answer(request([h(1), h(2), h(3), h(4), h(5)]));
		expect(answer.resolutionId).toBe(77n);
		expect(statuses(answer.results)).toEqual([
			"not_found",
			"ambiguous_hash",
			"lookup_failed",
			"lookup_failed",
			"resolved",
		]);
		expect(errors).toEqual([new Error("index is gone"), undefined]);
	});

	it("a promise is lookup_failed, and its rejection disturbs nobody", async () => {
		const rejected = vi.fn();
		process.on("unhandledRejection", rejected);
		const errors: unknown[] = [];
		const adapter = lookup(
			() => Promise.reject(new Error("late")) as unknown as BlockKey,
		);
		const answer = responder({
			adapter,
			onLookupError: (error) => errors.push(error),
		}).answer(request([h(1)]));
		expect(statuses(answer.results)).toEqual(["lookup_failed"]);
		expect(String(errors[0])).toContain("KeyAdapter.decodeFromRouter");
		await new Promise((resolve) => setImmediate(resolve));
		process.off("unhandledRejection", rejected);
		expect(rejected).not.toHaveBeenCalled();
	});

	it.each<[string, unknown]>([
		["nothing", undefined],
		["text", "key"],
		["no bytes", new Uint8Array()],
		["too many bytes", new Uint8Array(5_000)],
		["a number", 5],
	])("an adapter that returns %s is lookup_failed", (_what, value) => {
		const adapter = lookup(() => value as BlockKey);
		const answer = responder({ adapter }).answer(request([h(1)]));
		expect(statuses(answer.results)).toEqual(["lookup_failed"]);
	});

	it("without an adapter, or one that cannot look up, everything is unsupported", () => {
		expect(
			statuses(responder({}).answer(request([h(1), h(2)])).results),
		).toEqual(["unsupported", "unsupported"]);
		expect(
			statuses(
				responder({ adapter: lookup(undefined) }).answer(request([h(1)]))
					.results,
			),
		).toEqual(["unsupported"]);
	});
});

describe("self-source rejection", () => {
	it("comes before any adapter lookup, whatever endpoint the request came through", () => {
		const single = vi.fn(() => key(1));
		const many = vi.fn(() => [key(1)]);
		const residentLayout = vi.fn(() => undefined);
		const source = responder({
			adapter: lookup(single, many),
			residentLayout,
		});
		for (const alias of ["tcp://s:1", "tcp://localhost:1", undefined]) {
			const message = request([h(1), h(2)], self);
			const { sourceControlEndpoint: _e, ...header } = message.header;
			const answer = source.answer({
				...message,
				header:
					alias === undefined
						? header
						: { ...header, sourceControlEndpoint: alias },
			});
			expect(statuses(answer.results)).toEqual(["self_source", "self_source"]);
		}
		expect(single).not.toHaveBeenCalled();
		expect(many).not.toHaveBeenCalled();
		expect(residentLayout).not.toHaveBeenCalled();
	});

	it("needs no adapter", () => {
		expect(
			statuses(responder({}).answer(request([h(1)], self)).results),
		).toEqual(["self_source"]);
	});
});

describe("residency", () => {
	it("resolves to the full key, its ordered labels and its piece sizes", () => {
		const full = key(1, 2, 3);
		const layouts = new Map<string, ResidentLayout>([
			[keyText(full), { labels: ["kv", "kv", "indexer"], sizes: [16, 16, 4] }],
		]);
		const adapter = lookup((hash) => (hash === 1n ? full : key(9)));
		const answer = responder({
			adapter,
			residentLayout: (wanted) => layouts.get(keyText(wanted)),
		}).answer(request([h(1), h(2)]));
		expect(answer.results).toEqual([
			{
				status: "resolved",
				key: full,
				labels: ["kv", "kv", "indexer"],
				sizes: [16, 16, 4],
			},
			{ status: "not_resident" },
		]);
	});

	it("a record without usable layout is not_resident; a failing look-up lookup_failed", () => {
		const answers = [
			{ labels: [], sizes: [] },
			{ labels: ["kv"], sizes: [] },
		].map((layout) =>
			responder({
				adapter: lookup(() => key(1)),
				residentLayout: () => layout,
			}).answer(request([h(1)])),
		);
		expect(answers.flatMap((answer) => statuses(answer.results))).toEqual([
			"not_resident",
			"not_resident",
		]);
		const failing = responder({
			adapter: lookup(() => key(1)),
			residentLayout: () => {
				throw new Error("cache is gone");
			},
		});
		expect(statuses(failing.answer(request([h(1)])).results)).toEqual([
			"lookup_failed",
		]);
	});
});

describe("a batch look-up", () => {
	const layout = { labels: ["kv"], sizes: [16] };

	it("answers a whole message in one call", () => {
		const single = vi.fn(() => key(1));
		const many = vi.fn((hashes: readonly RouterHash[]) =>
			hashes.map((hash) => {
				if (hash === 1n) return "not_found" as const;
				if (hash === 2n) return "ambiguous_hash" as const;
				return hash === 3n ? (5 as unknown as BlockKey) : key(Number(hash));
			}),
		);
		const answer = responder({
			adapter: lookup(single, many),
			residentLayout: () => layout,
		}).answer(request([h(1), h(2), h(3), h(4)]));
		expect(statuses(answer.results)).toEqual([
			"not_found",
			"ambiguous_hash",
			"lookup_failed",
			"resolved",
		]);
		expect(many).toHaveBeenCalledTimes(1);
		expect(single).not.toHaveBeenCalled();
	});

	it.each<[string, () => unknown]>([
		[
			"throws",
			() => {
				throw new Error("boom");
			},
		],
		["returns a promise", () => Promise.reject(new Error("late"))],
		["returns too few answers", () => []],
		["returns no list", () => undefined],
	])("that %s falls back to single look-ups", (_what, many) => {
		const errors: unknown[] = [];
		const answer = responder({
			adapter: lookup(
				(hash) => {
					if (hash === 2n) throw new HashNotFoundError(hash);
					return key(1);
				},
				many as KeyAdapter["decodeManyFromRouter"],
			),
			residentLayout: () => layout,
			onLookupError: (error) => errors.push(error),
		}).answer(request([h(1), h(2)]));
		expect(statuses(answer.results)).toEqual(["resolved", "not_found"]);
		expect(errors).toHaveLength(1);
	});
});

describe("a full reply", () => {
	it("ends with lookup_failed where one message holds no more", () => {
		const labels = Array.from({ length: 64 }, (_, i) => `kv:layer-${i}`);
		const sizes = labels.map(() => 1 << 20);
		const source = responder({
			adapter: lookup(() => new Uint8Array(1024).fill(7) as BlockKey),
			residentLayout: () => ({ labels, sizes }),
		});
		const message = request(Array.from({ length: 1024 }, (_, i) => h(i)));
		const answer = source.answer(message);
		const names = statuses(answer.results);
		const first = names.indexOf("lookup_failed");
		expect(first).toBeGreaterThan(100);
		expect(names.slice(first).every((name) => name === "lookup_failed")).toBe(
			true,
		);
		expect(
			encodeControlMessage({ ...answer, header: message.header }).byteLength,
		).toBeLessThanOrEqual(MAX_CONTROL_MESSAGE_BYTES);
	});
});
