/** The contract of a `KeyAdapter`, as tests. */
import assert from "node:assert/strict";
import type { KeyAdapter } from "../../ports/key-adapter.js";
import {
	type BlockKey,
	MAX_BLOCK_KEY_BYTES,
	type RouterHash,
	UINT64_MAX,
} from "../../ports/names.js";
import { hasCode, type SuiteRunner } from "./runner.js";

/** A fresh adapter and keys to try it with. */
export interface KeyAdapterSubject<FrameworkKey> {
	/** The adapter under test. */
	readonly adapter: KeyAdapter<FrameworkKey>;
	/** At least two distinct keys that the adapter can resolve by their hashes, if it resolves hashes at all. */
	readonly known: readonly FrameworkKey[];
	/** A hash that no known key has; needed when the adapter resolves hashes. */
	readonly unknownHash?: bigint;
	/** Two or more distinct, known keys that share one hash. Leave out when that cannot happen. */
	readonly colliding?: readonly FrameworkKey[];
	/** Makes the adapter forget one key; afterwards the other keys of its hash must resolve again. */
	readonly forget?: (key: FrameworkKey) => void;
}

/** What an implementer gives to {@link keyAdapterSuite}. */
export interface KeyAdapterFactory<FrameworkKey> {
	/** Shown in test names. */
	readonly name: string;
	/** A fresh subject for each test. */
	create():
		| KeyAdapterSubject<FrameworkKey>
		| Promise<KeyAdapterSubject<FrameworkKey>>;
}

/**
 * Declares the tests of the {@link KeyAdapter} contract.
 *
 * ```ts
 * keyAdapterSuite({ describe, it }, { name: "mine", create: () => ({ adapter, known: [keyA, keyB], unknownHash: 1n }) });
 * ```
 */
export function keyAdapterSuite<FrameworkKey>(
	{ describe, it }: SuiteRunner,
	factory: KeyAdapterFactory<FrameworkKey>,
): void {
	const test = (
		name: string,
		body: (subject: KeyAdapterSubject<FrameworkKey>) => void,
	) =>
		it(name, async () => {
			const subject = await factory.create();
			assert.ok(subject.known.length >= 2, "the factory gives two known keys");
			body(subject);
		});

	describe(`KeyAdapter contract: ${factory.name}`, () => {
		test("encodes to 1 to 1024 bytes, the same each time", ({
			adapter,
			known,
		}) => {
			for (const key of known) {
				const encoded = adapter.encode(key);
				assert.ok(encoded instanceof Uint8Array);
				assert.ok(
					encoded.byteLength >= 1 && encoded.byteLength <= MAX_BLOCK_KEY_BYTES,
				);
				assert.equal(Buffer.compare(encoded, adapter.encode(key)), 0);
			}
		});

		test("encodes distinct keys to distinct bytes", ({
			adapter,
			known,
			colliding = [],
		}) => {
			const texts = [...new Set([...known, ...colliding])].map((key) =>
				hex(adapter.encode(key)),
			);
			assert.equal(new Set(texts).size, texts.length);
		});

		test("hashes to unsigned 64-bit integers, equal for equal bytes", ({
			adapter,
			known,
		}) => {
			for (const key of known) {
				const encoded = adapter.encode(key);
				const hash = adapter.decode(encoded);
				assert.equal(typeof hash, "bigint");
				assert.ok(hash >= 0n && hash <= UINT64_MAX, `${hash}`);
				const copy = new Uint8Array(encoded) as BlockKey;
				assert.equal(adapter.decode(copy), hash);
				assert.equal(adapter.decode(encoded), hash);
			}
		});

		test("resolves a hash to the full key, byte by byte", ({
			adapter,
			known,
		}) => {
			if (adapter.decodeFromRouter === undefined) return;
			for (const key of known) {
				const encoded = adapter.encode(key);
				const resolved = adapter.decodeFromRouter(adapter.decode(encoded));
				assert.equal(hex(resolved), hex(encoded));
			}
		});

		test("says which hash it does not know", ({ adapter, unknownHash }) => {
			if (adapter.decodeFromRouter === undefined) return;
			assert.notEqual(unknownHash, undefined, "the factory gives unknownHash");
			const resolve = adapter.decodeFromRouter.bind(adapter);
			assert.throws(
				() => resolve(unknownHash as RouterHash),
				(error: unknown) => {
					hasCode("ERR_KVCR_HASH_NOT_FOUND")(error);
					assert.equal((error as { hash: bigint }).hash, unknownHash);
					return true;
				},
			);
		});

		test("never chooses among keys that share a hash, and resolves again when one is left", ({
			adapter,
			colliding = [],
			forget,
		}) => {
			if (adapter.decodeFromRouter === undefined || colliding.length < 2)
				return;
			const resolve = adapter.decodeFromRouter.bind(adapter);
			const encoded = colliding.map((key) => adapter.encode(key));
			const hash = adapter.decode(encoded[0] as BlockKey);
			for (const key of encoded) assert.equal(adapter.decode(key), hash);
			assert.throws(
				() => resolve(hash),
				(error: unknown) => {
					hasCode("ERR_KVCR_AMBIGUOUS_HASH")(error);
					const { hash: named, candidates } = error as {
						hash: bigint;
						candidates: number;
					};
					assert.equal(named, hash);
					assert.equal(candidates, colliding.length);
					return true;
				},
			);
			if (forget === undefined) return;
			for (const key of colliding.slice(1)) forget(key);
			assert.equal(hex(resolve(hash)), hex(encoded[0] as BlockKey));
			forget(colliding[0] as FrameworkKey);
			assert.throws(() => resolve(hash), hasCode("ERR_KVCR_HASH_NOT_FOUND"));
		});

		test("answers a batch in order, and as the single look-up does", ({
			adapter,
			known,
			unknownHash,
			colliding = [],
		}) => {
			const many = adapter.decodeManyFromRouter?.bind(adapter);
			if (many === undefined) return;
			assert.notEqual(adapter.decodeFromRouter, undefined);
			assert.deepEqual(many([]), []);
			const hashes = [...known, ...colliding, ...known].map((key) =>
				adapter.decode(adapter.encode(key)),
			);
			if (unknownHash !== undefined)
				hashes.splice(1, 0, unknownHash as RouterHash);
			const batch = many(hashes);
			assert.deepEqual(
				batch.map((answer) =>
					typeof answer === "string" ? answer : hex(answer),
				),
				hashes.map((hash) => single(adapter, hash)),
			);
		});
	});
}

/** The single look-up, in the terms of the batch. */
function single<FrameworkKey>(
	adapter: KeyAdapter<FrameworkKey>,
	hash: RouterHash,
): string {
	try {
		return hex(adapter.decodeFromRouter?.(hash) as BlockKey);
	} catch (error) {
		const { code } = error as { code?: string };
		if (code === "ERR_KVCR_HASH_NOT_FOUND") return "not_found";
		if (code === "ERR_KVCR_AMBIGUOUS_HASH") return "ambiguous_hash";
		throw error;
	}
}

function hex(bytes: Uint8Array): string {
	return Buffer.from(bytes).toString("hex");
}
