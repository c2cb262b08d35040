import { defineConfig } from "tsup";
import { packageBuild } from "../../tools/config/tsup.js";

export default defineConfig(
	packageBuild({
		index: "src/index.ts",
		"portable/index": "src/portable/index.ts",
		"testing/index": "src/testing/index.ts",
	}),
);
