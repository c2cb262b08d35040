import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, describe, expect, it } from "vitest";
import { NixlTransferAgent, surveyTransports } from "../src/index.js";
import { libraryPath } from "./helpers.js";

const roots: string[] = [];
afterAll(() => {
	for (const root of roots) rmSync(root, { recursive: true, force: true });
});

/** A folder like `/sys/class/infiniband` with one device of one port. */
function sysfs(state: string): string {
	const root = mkdtempSync(join(tmpdir(), "kvcr-sysfs-"));
	roots.push(root);
	const port = join(root, "mlx5_0/ports/1");
	mkdirSync(port, { recursive: true });
	writeFileSync(join(port, "state"), `${state}\n`);
	return root;
}

describe("what an agent can use", () => {
	it("counts an active RDMA port", () => {
		expect(surveyTransports({}, sysfs("4: ACTIVE"))).toEqual({
			transports: ["rc", "sm", "tcp", "self"],
			rdma: true,
			rdmaDevices: ["mlx5_0:1"],
		});
	});

	it("does not count a port that is down, or no device at all", () => {
		for (const root of [sysfs("1: DOWN"), "/nonexistent"])
			expect(surveyTransports({}, root)).toEqual({
				transports: ["sm", "tcp", "self"],
				rdma: false,
				rdmaDevices: [],
			});
	});

	it.each([
		["tcp", false, ["tcp"]],
		["rc,self", true, ["rc", "self"]],
		["^ib", false, ["sm", "tcp", "self"]],
		["^rc,ud_mlx5", true, ["rc", "sm", "tcp", "self"]],
		["ud_x,shm", true, ["rc", "sm"]],
		["^shm", true, ["rc", "tcp", "self"]],
		["^mm,cma,knem", true, ["rc", "tcp", "self"]],
		["all", true, ["rc", "sm", "tcp", "self"]],
		["^tcp", true, ["rc", "sm", "self"]],
	])("obeys UCX_TLS=%s", (setting, rdma, transports) => {
		const found = surveyTransports({ UCX_TLS: setting }, sysfs("4: ACTIVE"));
		expect(found.rdma).toBe(rdma);
		expect(found.transports).toEqual(transports);
	});

	it("obeys UCX_NET_DEVICES", () => {
		const root = sysfs("4: ACTIVE");
		const rdma = (setting: string) =>
			surveyTransports({ UCX_NET_DEVICES: setting }, root).rdma;
		expect(rdma("mlx5_0:1")).toBe(true);
		expect(rdma("all")).toBe(true);
		expect(rdma("eth0")).toBe(false);
	});

	it("goes by the settings that UCX reads, not by those of a worker", async () => {
		const worker = new Worker(
			join(import.meta.dirname, "children/worker-survey.mjs"),
			{
				env: { ...process.env, UCX_TLS: "self" },
				execArgv: ["--conditions=kvcr-source"],
			},
		);
		const [transports] = await once(worker, "message");
		expect(transports).toEqual(surveyTransports().transports);
		await worker.terminate();
	});

	it.skipIf(surveyTransports().rdma)(
		"refuses to start where RDMA is required and there is none",
		async () => {
			await expect(
				NixlTransferAgent.create({ libraryPath, requireRdma: true }),
			).rejects.toMatchObject({ code: "ERR_KVCR_RDMA_UNAVAILABLE" });
		},
	);
});
