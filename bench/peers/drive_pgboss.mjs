// pg-boss with batches of 1,000, fetching on while batches are full, and its listener for wake-ups.
import { PgBoss } from "pg-boss";

import { dsn, run, started } from "./protocol.mjs";

const queue = "noop";
const boss = new PgBoss({ connectionString: dsn, useListenNotify: true });
boss.on("error", (error) => process.stderr.write(`${error}\n`));
await boss.start();

await run({
    setup: () => boss.createQueue(queue, { notify: true }),
    fill: async (jobs) => {
        for (let begin = 0; begin < jobs; begin += 10000) {
            const number = Math.min(10000, jobs - begin);
            await boss.insert(queue, Array.from({ length: number }, () => ({ data: {} })));
        }
    },
    work: () =>
        boss.work(
            queue,
            { batchSize: 1000, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true },
            async (jobs) => {
                for (const _job of jobs) {
                    started();
                }
            },
        ),
    enqueueOne: () => boss.send(queue, {}),
});
