// graphile-worker with the settings of its page on performance: 24 jobs at once, a local queue of 500, completion in batches.
import { makeWorkerUtils, run as runWorker, Logger } from "graphile-worker";

import { dsn, run, started } from "./protocol.mjs";

const preset = {
    worker: {
        connectionString: dsn,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger: new Logger(() => () => {}),
    },
};
const utils = await makeWorkerUtils({ preset });

await run({
    setup: () => utils.migrate(),
    fill: async (jobs) => {
        for (let begin = 0; begin < jobs; begin += 10000) {
            const number = Math.min(10000, jobs - begin);
            await utils.addJobs(Array.from({ length: number }, () => ({ identifier: "noop", payload: {} })));
        }
    },
    work: () => runWorker({ preset, taskList: { noop: async () => started() } }),
    enqueueOne: () => utils.addJob("noop", {}),
});
