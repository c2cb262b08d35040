import { packageTests } from "../../tools/config/vitest.js";

// Many tests start processes of their own, several at a time.
export default packageTests({ testTimeout: 60_000 });
