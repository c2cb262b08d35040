import type {
	AgentNotification,
	MemoryRegion,
	RemoteAgent,
	TransferCompletion,
} from "kvcr-core";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NixlTransferAgent } from "../src/index.js";
import { Child, libraryPath, missingNixl, runChild } from "./helpers.js";
import { type Introduction, introduce, load } from "./introduction.js";

const PATIENCE = { timeout: 10_000, interval: 5 };

describe.skipIf(missingNixl !== undefined)("two processes", () => {
	let child: Child;
	let agent: NixlTransferAgent;
	let region: MemoryRegion;
	let peer: RemoteAgent;
	let completions: TransferCompletion[];
	let notifications: AgentNotification[];

	beforeEach(async () => {
		// Both sides start UCX at the same moment.
		child = new Child("peer.ts");
		[agent] = await Promise.all([
			NixlTransferAgent.create({ libraryPath, closeTimeoutMs: 500 }),
			child.line(),
		]);
		region = await agent.createRegion({
			label: "mine",
			elementBytes: 1 << 20,
			elementCount: 16,
		});
		agent.expectTraffic();
		completions = [];
		notifications = [];
		agent.attach(() => {
			completions.push(...agent.takeCompletions());
			notifications.push(...agent.takeNotifications());
		});
		peer = load(agent, JSON.parse(await child.line()) as Introduction);
		child.say(JSON.stringify(introduce(agent, [region])));
	});
	afterEach(async () => {
		child.process.kill("SIGKILL");
		await child.ended;
	});

	const write = (elements = 16) =>
		agent.write({
			remote: peer,
			pairs: Array.from({ length: elements }, (_, element) => ({
				region,
				element,
				remoteRegion: 0,
				remoteElement: element,
			})),
			notification: Buffer.from("ping"),
		});

	const answered = () =>
		vi.waitFor(() => expect(notifications.length).toBeGreaterThan(0), PATIENCE);

	it("move bytes, and the bytes are there before the notification", async () => {
		region.element(0).fill(3);
		region.element(15).fill(4);
		agent.connect(peer);
		const transfer = write();
		await answered();
		expect(notifications).toEqual([
			{ from: peer.name, payload: Buffer.from("pong 3,4") },
		]);
		await vi.waitFor(
			() => expect(completions).toEqual([{ transfer, outcome: "done" }]),
			PATIENCE,
		);
		await agent.close();
		child.process.stdin?.end();
		expect(await child.ended).toMatchObject({ code: 0, signal: null });
	});

	it("fails the writes to a peer that was killed, closes cleanly, and serves the next peer", async () => {
		write();
		await answered();
		child.process.kill("SIGKILL");
		await child.ended;
		const before = completions.length;
		let refused: unknown;
		for (let i = 0; i < 3; i += 1) {
			try {
				write();
			} catch (error) {
				refused = error;
				break;
			}
			await vi.waitFor(
				() => expect(completions.length).toBe(before + 1 + i),
				PATIENCE,
			);
			if (completions.at(-1)?.outcome === "failed") break;
		}
		expect(
			(refused as { code?: string } | undefined)?.code ??
				completions.at(-1)?.outcome,
		).toMatch(/^(failed|ERR_KVCR_STALE_REMOTE|ERR_KVCR_TRANSFER_AGENT)$/);

		child = new Child("peer.ts");
		peer = load(agent, JSON.parse(await child.line()) as Introduction);
		child.say(JSON.stringify(introduce(agent, [region])));
		notifications.length = 0;
		write();
		await answered();
		expect(notifications[0]?.from).toBe(peer.name);
		await agent.close();
	});

	it("close with an error, and keep their memory, while a write cannot end", async () => {
		// A stopped peer never completes the connection that the write needs.
		child.process.kill("SIGSTOP");
		const transfer = write(1);
		// Until it is posted, a write can still be called back.
		await new Promise((resolve) => setTimeout(resolve, 100));
		expect(agent.cancel(transfer)).toBe(true);
		expect(() => region.release()).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_REGION_BUSY" }),
		);
		expect(() => agent.removeRemote(peer)).toThrow(
			expect.objectContaining({ code: "ERR_KVCR_REMOTE_BUSY" }),
		);
		const first = agent.close();
		await expect(first).rejects.toMatchObject({
			code: "ERR_KVCR_NOT_QUIESCENT",
		});
		await expect(agent.close()).rejects.toMatchObject({
			code: "ERR_KVCR_NOT_QUIESCENT",
		});
		expect(region.released).toBe(false);
		region.element(0).fill(1);
		child.process.kill("SIGCONT");
	});

	it("cost next to nothing while nothing is expected", async () => {
		const ended = await runChild("idle.ts", ["2000"]);
		expect(ended, ended.stderr).toMatchObject({ code: 0 });
		// The target is one percent; a loaded machine measures a little on top.
		expect(Number(ended.stdout)).toBeLessThan(3);
	});
});
