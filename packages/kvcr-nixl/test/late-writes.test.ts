/** Writes that arrive at a region which has ended: their writer heard of the end too late. */
import { describe, expect, it } from "vitest";
import { Child, createAgent, missingNixl } from "./helpers.js";

/** TCP is where UCX itself writes into the memory of the target; the others refuse, or write past the process. */
const TRANSPORTS = ["tcp", "all"];

describe.skipIf(missingNixl !== undefined)("a write to an ended region", () => {
	it.each(TRANSPORTS)(
		"does not end the process it goes to: %s",
		async (tls) => {
			// The transport is chosen when UCX is loaded, so the writer is a child as well.
			const writer = new Child("late-writer.ts", [], { UCX_TLS: tls });
			const target = new Child("peer.ts", [], { UCX_TLS: tls });
			writer.say(await target.line());
			expect(await writer.line()).toBe("written");
			target.say("release");
			await target.lines(2);
			writer.say("again");
			const ended = await writer.ended;
			expect(ended, ended.stderr).toMatchObject({ code: 0, signal: null });
			// Over TCP nobody refuses it, which is why the addresses have to be there.
			if (tls === "tcp") expect(ended.stdout).toContain("late done");
			target.process.stdin?.end();
			expect(await target.ended).toMatchObject({ code: 0, signal: null });
		},
	);

	it("leaves no memory behind, and no addresses without bound", async () => {
		const agent = await createAgent();
		const resident = () => process.memoryUsage.rss();
		const before = resident();
		for (let i = 0; i < 64; i += 1) {
			const region = await agent.createRegion({
				label: "r",
				elementBytes: 1 << 20,
				elementCount: 16,
				backing: i % 2 === 0 ? "memfd" : "anonymous",
			});
			agent.localMetadata();
			for (let at = 0; at < 16; at += 1) region.element(at).fill(1);
			region.release();
		}
		// A gigabyte was touched in all.
		expect(resident() - before).toBeLessThan(200 << 20);
		await agent.close();
	});

	it("cannot reach the file of a region that was mapped or shared", async () => {
		const agent = await createAgent();
		const shape = { label: "r", elementBytes: 4096, elementCount: 1 };
		const owner = await agent.createRegion({ ...shape, backing: "memfd" });
		const guest = await agent.mapRegion({
			...shape,
			path: owner.path as string,
		});
		owner.element(0).fill(7);
		// Both sides of a write to oneself are local, so the address of the ended region can be written to by its old handle.
		const self = agent.addRemote(agent.localMetadata(), [guest.descriptor]);
		guest.release();
		const source = await agent.createRegion(shape);
		source.element(0).fill(9);
		try {
			agent.write({
				remote: self,
				pairs: [
					{ region: source, element: 0, remoteRegion: 0, remoteElement: 0 },
				],
				notification: new Uint8Array(1),
			});
			await new Promise((resolve) => agent.attach(() => resolve(undefined)));
		} catch {
			// Refused is as good.
		}
		expect(owner.element(0).every((byte) => byte === 7)).toBe(true);
		await agent.close();
	});
});
