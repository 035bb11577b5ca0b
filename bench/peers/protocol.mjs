// The protocol of protocol.py for peers that run on Node.js. Node has no datagrams over Unix sockets, so a handler tells
// by a line on standard output, which the measuring program passes on.
import { createInterface } from "node:readline";

const jobs = Number(process.env.BENCH_JOBS ?? 0);
let count = 0;

export const dsn = process.env.DATABASE_URL;

export function started() {
    count += 1;
    if (count === 1 || count === jobs || !jobs) {
        process.stdout.write(`started ${now()}\n`);
    }
}

const now = () => (performance.timeOrigin + performance.now()) / 1000;

export async function run({ setup, fill, work, enqueueOne }) {
    const [step, number] = process.argv.slice(2);
    if (step === "setup") {
        await setup();
        process.exit(0);
    } else if (step === "fill") {
        await fill(Number(number));
        process.exit(0);
    } else if (step === "work") {
        await work();
    } else {
        for await (const _line of createInterface({ input: process.stdin })) {
            await enqueueOne();
            process.stdout.write(`${now()}\n`);
        }
        process.exit(0);
    }
}
