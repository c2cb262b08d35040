import { freePort } from "kvcr-core/testing";
import { expect, it } from "vitest";
import { key } from "./harness/blocks.js";
import { byHash, expectDrained, expectRightBytes } from "./harness/expect.js";
import { hint } from "./harness/hint.js";
import { overRigs } from "./harness/rigs.js";

overRigs(
	"peers that come and go",
	[
		["portable", "zmq"],
		["nixl", "zmq"],
		["portable", "nats"],
	],
	(rig) => {
		it("a source killed while it is written from, and restarted under the same endpoint", async () => {
			const port = await freePort();
			const first = await rig.worker("source", { port });
			const target = await rig.worker("target", {
				// Several times what a connection takes to be made again, also where others keep the processors busy.
				operationTimeoutMs: 1_200,
				abandonTimeoutMs: 2_400,
			});
			await first.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			await target.call(
				"submitHint",
				hint({ source: first.endpoint, hashes: [1n] }),
			);
			expect(byHash(await target.call("outcomes", 1)).get(1n)).toBe("placed");

			// It hangs with a request on its way, then dies.
			first.signal("SIGSTOP");
			await target.call(
				"submitHint",
				hint({ source: first.endpoint, hashes: [2n] }),
				"r",
			);
			const pending = target.call("fetch", [key(2n)], { requestId: "r" });
			const [entry] = await pending;
			expect(entry).toMatchObject({ status: "FAILED" });
			await first.kill();

			const second = await rig.worker("source", {
				port,
				// NATS knows two peers of one name; that there is one at a time is for whoever runs them to say.
				...(rig.channel === "nats" && { exclusiveEndpoint: true }),
			});
			expect(second.info.incarnation).not.toBe(first.info.incarnation);
			await second.call("deposit", [{ key: key(2n) }, { key: key(3n) }]);
			const startedAt = performance.now();
			await target.call("discardHint", "r");
			await target.call(
				"submitHint",
				hint({ source: second.endpoint, hashes: [3n], scope: "independent" }),
			);
			const outcomes = await target.call("outcomes", 2);
			expect(outcomes.at(-1)).toMatchObject({ hash: 3n, outcome: "placed" });
			expect(performance.now() - startedAt).toBeLessThan(3000);
			expectRightBytes(await target.call("deliver", [{ key: key(3n) }]));
			await expectDrained(target);
			await expectDrained(second);
			expect(await target.close()).toBe(0);
			expect(await second.close()).toBe(0);
		});

		it("a destination killed in the middle leaves its source usable for others", async () => {
			const source = await rig.worker("source", { operationTimeoutMs: 500 });
			await source.call("deposit", [{ key: key(1n) }, { key: key(2n) }]);
			const doomed = await rig.worker("doomed");
			await source.call("poll", false);
			await source.call("lock", true);
			await doomed.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n] }),
				"r",
			);
			void doomed.call("fetch", [key(1n)], { requestId: "r" }).catch(() => {});
			await doomed.call("stats");
			await doomed.kill();
			await source.call("lock", false);
			await source.call("poll", true);
			const next = await rig.worker("next");
			await next.call(
				"submitHint",
				hint({ source: source.endpoint, hashes: [1n, 2n] }),
			);
			expect([...byHash(await next.call("outcomes", 2)).values()]).toEqual([
				"placed",
				"placed",
			]);
			await expectDrained(source);
			await expectDrained(next);
		});
	},
);
