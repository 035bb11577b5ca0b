// A producer in JavaScript without a driver: reads JSON texts from its standard input, one a line, makes each a value as a
// program would have it, and enqueues JSON.stringify() of it over PostgreSQL's own protocol. For each it prints a line of JSON:
// what was sent, and the job's id or the SQLSTATE of the refusal. Usage: node enqueue_from_javascript.mjs SOCKET DATABASE USER
import net from "node:net";
import readline from "node:readline";

const [socketPath, database, user] = process.argv.slice(2);
const socket = net.connect(socketPath);
let received = Buffer.alloc(0);
let wake = () => {};
socket.on("data", (chunk) => {
  received = Buffer.concat([received, chunk]);
  wake();
});

async function bytes(count) {
  while (received.length < count) await new Promise((resolve) => (wake = resolve));
  const taken = received.subarray(0, count);
  received = received.subarray(count);
  return taken;
}

async function message() {
  const head = await bytes(5);
  return [String.fromCharCode(head[0]), await bytes(head.readInt32BE(1) - 4)];
}

const text = (value) => Buffer.concat([Buffer.from(value), Buffer.alloc(1)]);
const int16 = (value) => { const made = Buffer.alloc(2); made.writeInt16BE(value); return made; };
const int32 = (value) => { const made = Buffer.alloc(4); made.writeInt32BE(value); return made; };

function send(kind, ...parts) {
  const body = Buffer.concat(parts);
  socket.write(Buffer.concat([Buffer.from(kind), int32(body.length + 4), body]));
}

async function untilReady() {
  const seen = {};
  for (;;) {
    const [kind, body] = await message();
    if (kind === "D") seen.job_id = body.subarray(6, 6 + body.readInt32BE(2)).toString();
    if (kind === "E") seen.sqlstate = body.toString().split("\0").find((field) => field[0] === "C").slice(1);
    if (kind === "Z") return seen;
  }
}

async function enqueue(payload) {
  const value = Buffer.from(payload);
  send("P", text(""), text("select job_id from wakeful.enqueue('FROM_JAVASCRIPT', $1::text::jsonb)"), int16(0));
  send("B", text(""), text(""), int16(0), int16(1), int32(value.length), value, int16(0));
  send("E", text(""), int32(0));
  send("S");
  return untilReady();
}

send("", int32(196608), text("user"), text(user), text("database"), text(database), Buffer.alloc(1));
await untilReady();
for await (const line of readline.createInterface({ input: process.stdin })) {
  const payload = JSON.stringify(JSON.parse(line));
  console.log(JSON.stringify({ payload, ...(await enqueue(payload)) }));
}
socket.end();
