// pg-boss: `pgboss.mjs enqueue|drain [fetch|burst]`.
// fetch: its pull interface (fetch, complete), two loops of 2000, timed from the first fetch.
// burst: its workers, timed from the first handler call until no job is unfinished.
import { PgBoss } from "pg-boss";
import { answer, chunks, gone, n, payloads, seconds, url } from "./driver.mjs";

const queue = "noop";

async function enqueue(boss) {
  await boss.deleteAllJobs(queue);
  const jobs = payloads().map((data) => ({ data }));
  const start = seconds();
  for (const some of chunks(jobs)) await boss.insert(queue, some);
  return seconds() - start;
}

async function fetch(boss) {
  let handled = 0;
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(queue, { batchSize: 2000 });
      if (jobs.length === 0) return;
      await boss.complete(queue, jobs.map((job) => job.id));
      handled += jobs.length;
    }
  };
  const start = seconds();
  await Promise.all([loop(), loop()]);
  if (handled !== n) throw new Error(`${handled} of ${n} were handled`);
  return seconds() - start;
}

async function burst(boss) {
  let handled = 0, first = 0, finish;
  const all = new Promise((done) => (finish = done));
  const settings = { batchSize: 1000, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, localConcurrency: 4 };
  await boss.work(queue, settings, async (jobs) => {
    first ||= seconds();
    if ((handled += jobs.length) >= n) finish();
  });
  await all;
  await gone(`select 1 from pgboss.job where name = '${queue}' and state < 'completed' limit 1`);
  return seconds() - first;
}

const [op, way = "fetch"] = process.argv.slice(2);
const boss = new PgBoss({ connectionString: url, useListenNotify: way === "burst", max: 10 });
boss.on("error", console.error);
await boss.start();
await boss.createQueue(queue, { notify: way === "burst" });
if (op === "enqueue") answer(op, await enqueue(boss));
else if (op === "drain") answer(op, await (way === "burst" ? burst : fetch)(boss));
else throw new Error(`unknown operation ${op}: enqueue or drain`);
