/** Certificates for one test run: made by openssl in a temporary folder, never kept. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Files of one authority and what it signed. */
export interface Certificates {
	readonly ca: string;
	/** A server certificate for 127.0.0.1 and localhost. */
	readonly server: { readonly cert: string; readonly key: string };
	/** A client certificate. */
	readonly client: { readonly cert: string; readonly key: string };
	/** Removes the files. */
	remove(): void;
}

/** Makes an authority with one server and one client certificate, valid for one day. */
export function makeCertificates(): Certificates {
	const folder = mkdtempSync(join(tmpdir(), "kvcr-certificates-"));
	const file = (name: string) => join(folder, name);
	const openssl = (...args: string[]) =>
		execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
	const key = [
		"-newkey",
		"ec",
		"-pkeyopt",
		"ec_paramgen_curve:P-256",
		"-nodes",
	];
	openssl(
		...["req", "-x509", ...key, "-days", "1", "-subj", "/CN=test authority"],
		...["-keyout", "ca.key", "-out", "ca.pem"],
	);
	const sign = (name: string, extension: string) => {
		writeFileSync(file(`${name}.ext`), extension);
		openssl(
			...["req", "-new", ...key, "-subj", `/CN=${name}`],
			...["-keyout", `${name}.key`, "-out", `${name}.csr`],
		);
		openssl(
			...["x509", "-req", "-in", `${name}.csr`, "-days", "1"],
			...["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
			...["-extfile", `${name}.ext`, "-out", `${name}.pem`],
		);
		return { cert: file(`${name}.pem`), key: file(`${name}.key`) };
	};
	return {
		ca: file("ca.pem"),
		server: sign(
			"server",
			"subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n",
		),
		client: sign("client", "extendedKeyUsage=clientAuth\n"),
		remove: () => rmSync(folder, { recursive: true, force: true }),
	};
}
