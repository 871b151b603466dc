// What both Node drivers share: N and DATABASE_URL, a payload of about 200 bytes, the answer's one line.
import pg from "pg";

export const url = process.env.DATABASE_URL;
export const n = Number(process.env.N);
export const bulk = 5000; // jobs per bulk call; both peers are fastest with large ones

const pad = "x".repeat(150);
export const payloads = () => Array.from({ length: n }, (_, i) => ({ i, t: 1700000000, pad }));

export const seconds = () => performance.now() / 1000;
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export function* chunks(items) {
  for (let i = 0; i < items.length; i += bulk) yield items.slice(i, i + bulk);
}

/** Waits until `sql` (a query for one unfinished job) finds nothing. */
export async function gone(sql) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  while ((await client.query(sql)).rowCount > 0) await pause(5);
  await client.end();
}

export async function execute(sql) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql);
  await client.end();
}

/** Prints the answer and ends, whatever the peer keeps running. */
export function answer(op, took) {
  process.stdout.write(JSON.stringify({ op, n, seconds: took }) + "\n", () => process.exit(0));
}
