import { packageTests } from "../tools/config/vitest.js";

export default packageTests({
	include: ["**/*.test.ts"],
	testTimeout: 60_000,
	hookTimeout: 60_000,
	fileParallelism: false,
});
