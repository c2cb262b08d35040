import { defineConfig } from "tsup";
import { packageBuild } from "../../tools/config/tsup.js";

export default defineConfig(
	packageBuild({
		index: "src/index.ts",
	}),
);
