import { packageTests } from "../../tools/config/vitest.js";

export default packageTests();
