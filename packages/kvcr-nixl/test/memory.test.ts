import {
	existsSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NixlTransferAgent } from "../src/index.js";
import { Backing, nativeBinding } from "../src/native.js";
import { createAgent, libraryPath, missingNixl, runChild } from "./helpers.js";

const KiB = 1024;
const GiB = 1024 ** 3;

describe.skipIf(missingNixl !== undefined)("memory", () => {
	let agent: NixlTransferAgent;
	let scratch: string;
	beforeAll(async () => {
		scratch = mkdtempSync(join(tmpdir(), "kvcr-nixl-"));
		agent = await createAgent();
	});
	afterAll(async () => {
		await agent.close();
		rmSync(scratch, { recursive: true, force: true });
	});

	const shape = { label: "r", elementBytes: 64 * KiB, elementCount: 4 };

	it("is page-aligned and contiguous, and has no path when it is anonymous", async () => {
		const region = await agent.createRegion(shape);
		expect(region.descriptor.addr % 4096n).toBe(0n);
		expect(region.path).toBeUndefined();
		region.release();
	});

	it("is a failure whatever the reason's text is, even none", async () => {
		const native = await nativeBinding().createAgent(
			libraryPath,
			"reasons",
			() => {},
		);
		// The reason begins with the path, and ends at the NUL.
		await expect(
			native.createRegion(1, {
				backing: Backing.file,
				name: "\0",
				offset: 0,
				hugePages: false,
				elementBytes: 64,
				elementCount: 1,
				sliceBytes: 64,
			}),
		).rejects.toMatchObject({
			code: "NATIVE_MEMORY",
			message: "no reason was given",
		});
		await native.close(1_000);
	});

	it("can be shared by a path, and mapped by whoever knows it", async () => {
		const owner = await agent.createRegion({ ...shape, backing: "memfd" });
		expect(owner.path).toMatch(/^\/proc\/\d+\/fd\/\d+$/);
		const guest = await agent.mapRegion({
			...shape,
			path: owner.path as string,
		});
		owner.element(3).fill(7);
		expect(guest.element(3).every((byte) => byte === 7)).toBe(true);
		guest.element(0)[5] = 9;
		expect(owner.element(0)[5]).toBe(9);
		owner.release();
		expect(guest.element(3)[0]).toBe(7);
		guest.release();
	});

	it("can have a name, which is gone when the region is", async () => {
		const name = `kvcr-test-${process.pid}`;
		const path = `/dev/shm/${name}`;
		const spec = { ...shape, backing: { shared: name } };
		const region = await agent.createRegion(spec);
		expect(region.path).toBe(path);
		region.element(1).fill(3);
		expect(readFileSync(path)[64 * KiB]).toBe(3);
		await expect(agent.createRegion(spec)).rejects.toMatchObject({
			code: "ERR_KVCR_REGION_MEMORY",
			message: expect.stringContaining("File exists"),
		});
		region.release();
		expect(existsSync(path)).toBe(false);
		(await agent.createRegion(spec)).release();
		const other = await createAgent();
		await other.createRegion(spec);
		await other.close();
		expect(existsSync(path)).toBe(false);
	});

	it("leaves alone what somebody else has put under its name meanwhile", async () => {
		const name = `kvcr-test-successor-${process.pid}`;
		const path = `/dev/shm/${name}`;
		const region = await agent.createRegion({
			...shape,
			backing: { shared: name },
		});
		rmSync(path);
		writeFileSync(path, "the successor's");
		region.release();
		expect(readFileSync(path, "utf8")).toBe("the successor's");
		rmSync(path);
	});

	it("maps a part of a file that another process owns", async () => {
		const path = join(scratch, "engine-buffers");
		writeFileSync(path, Buffer.alloc(16 * KiB, 1));
		const region = await agent.mapRegion({
			label: "engine",
			elementBytes: 4 * KiB,
			elementCount: 2,
			path,
			offset: 8 * KiB,
		});
		region.element(0).fill(2);
		const bytes = readFileSync(path);
		expect([bytes[8 * KiB - 1], bytes[8 * KiB], bytes[12 * KiB]]).toEqual([
			1, 2, 1,
		]);
		region.release();
		expect(existsSync(path)).toBe(true);
	});

	it("refuses to map what is too short, misaligned, absent or no file", async () => {
		const path = join(scratch, "short");
		writeFileSync(path, Buffer.alloc(16 * KiB));
		const good = { label: "x", elementBytes: 4 * KiB, elementCount: 4, path };
		const cases: [object, string, string][] = [
			[{ elementCount: 5 }, "ERR_KVCR_REGION_MEMORY", "16384 bytes"],
			[{ offset: 4 * KiB }, "ERR_KVCR_REGION_MEMORY", "from offset 4096"],
			[{ offset: 2 ** 40 }, "ERR_KVCR_REGION_MEMORY", "16384 bytes"],
			[{ offset: 100 }, "ERR_KVCR_REGION_MEMORY", "page size"],
			[{ path: join(scratch, "absent") }, "ERR_KVCR_REGION_MEMORY", "absent"],
			[{ path: scratch }, "ERR_KVCR_REGION_MEMORY", scratch],
			[{ path: "/dev/null" }, "ERR_KVCR_REGION_MEMORY", "regular file"],
			[{ path: "" }, "ERR_KVCR_INVALID_ARGUMENT", "spec.path"],
			[{ offset: -1 }, "ERR_KVCR_INVALID_ARGUMENT", "spec.offset"],
		];
		for (const [change, code, part] of cases)
			await expect(
				agent.mapRegion({ ...good, ...change }),
				JSON.stringify(change),
			).rejects.toMatchObject({ code, message: expect.stringContaining(part) });
		(await agent.mapRegion(good)).release();
	});

	it.each(["anonymous", "memfd"] as const)(
		"says what to do when there are no huge pages, and uses them where there are: %s",
		async (backing) => {
			const spec = { ...shape, backing, hugePages: true };
			const before = freeHugePages();
			const wanted = agent.createRegion(spec);
			if (before < 2) {
				await expect(wanted).rejects.toMatchObject({
					code: "ERR_KVCR_REGION_MEMORY",
					message: expect.stringContaining("vm.nr_hugepages"),
				});
				return;
			}
			const region = await wanted;
			region.element(3).fill(1);
			if (region.path !== undefined) {
				const guest = await agent.mapRegion({ ...shape, path: region.path });
				expect(guest.element(3)[5]).toBe(1);
				guest.release();
			}
			region.release();
			// Every page is given back, whether or not a peer may know its address.
			expect(freeHugePages()).toBe(before);
		},
	);

	it.each([
		{ backing: "disk" },
		{ backing: { shared: "../etc/passwd" } },
		{ backing: { shared: "" } },
		{ backing: null },
		{ hugePages: "yes" },
		{ backing: { shared: "x" }, hugePages: true },
		{ elementBytes: 2 ** 31 + 1 },
	])("refuses the region %j", async (change) => {
		await expect(
			agent.createRegion({ ...shape, ...change } as typeof shape),
		).rejects.toMatchObject({ code: "ERR_KVCR_INVALID_ARGUMENT" });
	});

	it("is not given away to another thread", async () => {
		const region = await agent.createRegion(shape);
		const buffer = region.element(0).buffer as ArrayBuffer;
		// Some versions of Node.js refuse, others copy instead.
		try {
			structuredClone(buffer, { transfer: [buffer] });
		} catch (error) {
			expect(error).toMatchObject({ name: "DataCloneError" });
		}
		const { port1, port2 } = new MessageChannel();
		try {
			port1.postMessage(buffer, [buffer]);
		} catch (error) {
			expect(error).toMatchObject({ name: "DataCloneError" });
		}
		port1.close();
		port2.close();
		expect(region.element(0).byteLength).toBe(64 * KiB);
		region.release();
	});

	it("goes past 4 GiB in one region, and writes to all of it", async () => {
		const elementBytes = 48 << 20;
		const elementCount = Math.ceil((5 * GiB) / elementBytes);
		const region = await agent.createRegion({
			label: "large",
			elementBytes,
			elementCount,
		});
		const last = elementCount - 1;
		// Elements around the seams between registrations are whole.
		for (const i of [0, 20, 21, 22, 42, 43, last])
			expect(region.element(i).byteLength).toBe(elementBytes);
		region.element(0).fill(5);
		const self = agent.addRemote(agent.localMetadata(), [region.descriptor]);
		const transfer = agent.write({
			remote: self,
			pairs: [
				{ region, element: 0, remoteRegion: 0, remoteElement: last },
				{ region, element: 0, remoteRegion: 0, remoteElement: 22 },
			],
			notification: Buffer.from("x"),
		});
		const completion = await new Promise((resolve) => {
			agent.attach(() => {
				const taken = agent.takeCompletions();
				if (taken.length > 0) resolve(taken[0]);
			});
		});
		agent.detach();
		expect(completion).toEqual({ transfer, outcome: "done" });
		for (const i of [last, 22]) {
			const bytes = region.element(i);
			expect([bytes[0], bytes[elementBytes - 1]]).toEqual([5, 5]);
		}
		expect(region.element(21)[elementBytes - 1]).toBe(0);
		agent.removeRemote(self);
		region.release();
	});

	it("outlives garbage collection while a write may touch it", async () => {
		expect(
			await runChild("forgotten-region.ts", [], {}, ["--expose-gc"]),
		).toMatchObject({ code: 0, stdout: "done 200\n" });
	});
});

/** Huge pages that nobody uses. */
function freeHugePages(): number {
	const meminfo = readFileSync("/proc/meminfo", "utf8");
	return Number(/HugePages_Free:\s+(\d+)/.exec(meminfo)?.[1] ?? 0);
}
